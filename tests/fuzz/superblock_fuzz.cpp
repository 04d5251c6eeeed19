// SPDX-License-Identifier: Apache-2.0
// superblock_fuzz: the two copies of a superblock, of any bytes.
//
// Input: flags (bit 0, bit 1: right checksum of the first, second copy), then half of the rest is
// the beginning of the first copy, half of the second; zeros follow.
#include "proto/superblock.h"

#include <memory>

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace hc;
  fuzz::Input input(data, size_bytes);
  const std::uint8_t flags = input.byte();
  const std::size_t half_bytes = input.left_bytes() / 2;
  fuzz::Bytes file(kSuperblockCopies * kSuperblockCopyBytes);
  for (std::uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    const std::size_t at = copy * kSuperblockCopyBytes;
    fuzz::Bytes part = input.take(half_bytes);
    part.resize(std::min<std::size_t>(part.size(), kSuperblockCopyBytes));
    fuzz::place(file, at, part);
    if ((flags >> copy & 1) != 0) {
      fuzz::reseal(file.data() + at, sizeof(Superblock));
    }
  }

  const auto found = parse_superblock(file);
  if (!found) {
    HC_CHECK(!found.error().message().empty());
    return 0;
  }
  HC_CHECK(found->space_count <= kSpaceEpochsMax);
  auto again = std::make_unique<Superblock>(*found);
  seal_superblock(*again);
  HC_CHECK(std::memcmp(again.get(), &*found, sizeof *again) == 0);
  // The result is one of the two copies, never a mixture.
  bool is_a_copy = false;
  for (std::uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    const std::uint8_t* at = file.data() + copy * kSuperblockCopyBytes;
    is_a_copy = is_a_copy || std::memcmp(at, &*found, sizeof *again) == 0;
  }
  HC_CHECK(is_a_copy);
  return 0;
}
