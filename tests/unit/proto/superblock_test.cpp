// SPDX-License-Identifier: Apache-2.0
// superblock_test: which of the two alternating copies counts, and what a torn write leaves
// (proto/disk_headers.cpp).
#include "proto/superblock.h"

#include <cstring>
#include <memory>
#include <string>

#include "proto/checksum.h"
#include "proto/versions.h"
#include "support/catch.h"
#include "support/dies.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

using SuperblockPtr = std::unique_ptr<Superblock>;

constexpr std::size_t kFileBytes = kSuperblockCopies * kSuperblockCopyBytes;

// A superblock whose every space entry depends on the sequence, so that two never mix unseen.
SuperblockPtr make(std::uint64_t sequence) {
  auto superblock = std::make_unique<Superblock>();
  superblock->space_count = kSpaceEpochsMax;
  superblock->sequence = sequence;
  superblock->epoch = sequence * 10;
  superblock->store_uuid = sample_uuid();
  superblock->generation_high = 77;
  for (std::size_t i = 0; i < kSpaceEpochsMax; ++i) {
    superblock->spaces[i].space.bytes[0] = static_cast<std::uint8_t>(i);
    superblock->spaces[i].epoch = sequence + i;
  }
  seal_superblock(*superblock);
  return superblock;
}

// The checksum as a writer of any version makes it.
void reseal(Superblock& superblock) {
  const Bytes bytes = struct_bytes(superblock);
  superblock.superblock_crc = crc32c(std::span(bytes).subspan(4));
}

void put(Bytes& file, std::size_t copy, const Superblock& superblock) {
  std::memcpy(file.data() + copy * kSuperblockCopyBytes, &superblock, sizeof superblock);
}

Bytes file_of(const Superblock& first, const Superblock& second) {
  Bytes file(kFileBytes);
  put(file, 0, first);
  put(file, 1, second);
  return file;
}

void check_sequence(const Bytes& file, std::uint64_t sequence) {
  const auto found = parse_superblock(file);
  REQUIRE(found);
  CHECK(struct_bytes(*found) == struct_bytes(*make(sequence)));
}

Code error_of(const Bytes& file) {
  const auto found = parse_superblock(file);
  REQUIRE_FALSE(found);
  return found.error().code;
}

}  // namespace

TEST_CASE("The newer of two good superblocks counts, wherever it stands") {
  check_sequence(file_of(*make(6), *make(7)), 7);
  check_sequence(file_of(*make(8), *make(7)), 8);
}

TEST_CASE("One good superblock is enough, beside a copy that was never written") {
  Bytes file(kFileBytes);
  put(file, 0, *make(1));
  check_sequence(file, 1);

  Bytes other(kFileBytes);
  put(other, 1, *make(2));
  check_sequence(other, 2);
}

TEST_CASE("A superblock torn after any of its blocks falls back to the other copy") {
  const SuperblockPtr older = make(5);
  const SuperblockPtr newer = make(7);
  for (std::size_t cut = kBlockBytes; cut < sizeof(Superblock); cut += kBlockBytes) {
    CAPTURE(cut);
    Bytes file = file_of(*make(6), *older);
    std::memcpy(file.data() + kSuperblockCopyBytes, newer.get(), cut);
    check_sequence(file, 6);
  }
}

TEST_CASE("A superblock with a flipped bit falls back to the other copy") {
  const Bytes good = file_of(*make(6), *make(7));
  const std::size_t fields = offsetof(Superblock, spaces);
  for (std::size_t byte = 0; byte < sizeof(Superblock); byte += byte < fields ? 1 : 997) {
    CAPTURE(byte);
    Bytes file = good;
    file[kSuperblockCopyBytes + byte] ^= static_cast<std::uint8_t>(1U << (byte % 8));
    check_sequence(file, 6);
  }
}

TEST_CASE("A superblock file that was never written, or holds something else, is not_found") {
  CHECK(error_of(Bytes(kFileBytes, 0x00)) == Code::not_found);
  CHECK(error_of(Bytes(kFileBytes, 0xFF)) == Code::not_found);
}

TEST_CASE("Two damaged superblocks are corrupt, not a new store") {
  Bytes file = file_of(*make(6), *make(7));
  file[100] ^= 1;
  file[kSuperblockCopyBytes + 100] ^= 1;
  CHECK(error_of(file) == Code::corrupt);
}

TEST_CASE("A superblock of another version is refused, even beside an older one of ours") {
  SuperblockPtr foreign = make(7);
  foreign->version = kDiskVersion + 1;
  reseal(*foreign);

  const auto found = parse_superblock(file_of(*make(6), *foreign));
  REQUIRE_FALSE(found);
  CHECK(found.error().code == Code::refused);
  CHECK(found.error().message() == "store version " + std::to_string(kDiskVersion + 1) +
                                       ": this build reads version " +
                                       std::to_string(kDiskVersion));
}

TEST_CASE("A superblock of impossible content is corrupt, even under a right checksum") {
  SuperblockPtr bad = make(7);
  SECTION("more spaces than there is room for") {
    bad->space_count = kSpaceEpochsMax + 1;
  }
  SECTION("first spare field in use") {
    bad->volumes = 1;  // the home volume has no bit
  }
  SECTION("second spare field in use") {
    bad->reserved2 = 1;
  }
  reseal(*bad);
  CHECK(error_of(file_of(*make(6), *bad)) == Code::corrupt);
}

TEST_CASE("Fewer bytes than both superblocks are our own error and end us") {
  CHECK(test::dies_by_check([] { (void)parse_superblock(Bytes(kFileBytes - 1)); }));
}

}  // namespace hc::proto_test
