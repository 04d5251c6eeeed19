// SPDX-License-Identifier: Apache-2.0
// slab_header_test: which damage to the two copies a slab survives, and what is refused
// (proto/disk_headers.cpp).
#include "proto/slab_header.h"

#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "proto/blob_header.h"
#include "proto/checksum.h"
#include "proto/versions.h"
#include "support/catch.h"
#include "support/dies.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

SlabHeader sample_header() {
  SlabHeader header{};
  header.kind = 1;
  header.shard = 3;
  header.volume = 2;
  header.store_uuid = sample_uuid();
  header.family = make_family_id(sample_space());
  header.slot_bytes = blob_bytes(515328);
  header.first_slot_offset = kFirstSlotOffset;
  header.slot_count = 1000;
  header.slots_per_step = 64;
  header.payload_bytes = 515328;
  seal_slab_header(header);
  return header;
}

Bytes blocks_of(const SlabHeader& first, const SlabHeader& second) {
  Bytes blocks(std::size_t{kSlabHeaderCopies} * kBlockBytes);
  std::memcpy(blocks.data(), &first, sizeof first);
  std::memcpy(blocks.data() + kBlockBytes, &second, sizeof second);
  return blocks;
}

Bytes sample_blocks() {
  return blocks_of(sample_header(), sample_header());
}

// The checksum as a writer of any version makes it.
void reseal(SlabHeader& header) {
  const Bytes bytes = struct_bytes(header);
  header.header_crc = crc32c(std::span(bytes).subspan(4));
}

}  // namespace

TEST_CASE("A sealed slab header comes back from its two copies") {
  const auto found = parse_slab_header(sample_blocks());
  REQUIRE(found);
  CHECK(found->magic == kSlabMagic);
  CHECK(found->version == kDiskVersion);
  CHECK(struct_bytes(*found) == struct_bytes(sample_header()));
}

TEST_CASE("Any flipped bit in one copy of the slab header is tolerated, in both it is not") {
  const Bytes good = sample_blocks();
  for (std::size_t bit = 0; bit < sizeof(SlabHeader) * 8; ++bit) {
    CAPTURE(bit);
    const auto mask = static_cast<std::uint8_t>(1U << (bit % 8));
    Bytes first_bad = good;
    first_bad[bit / 8] ^= mask;
    Bytes second_bad = good;
    second_bad[kBlockBytes + bit / 8] ^= mask;
    Bytes both_bad = first_bad;
    both_bad[kBlockBytes + bit / 8] ^= mask;

    for (const Bytes* blocks : {&first_bad, &second_bad}) {
      const auto found = parse_slab_header(*blocks);
      REQUIRE(found);
      CHECK(struct_bytes(*found) == struct_bytes(sample_header()));
    }
    const auto found = parse_slab_header(both_bad);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Code::corrupt);
  }
}

TEST_CASE("A slab that was never written is corrupt, not a slab of zeros") {
  for (const auto fill : std::initializer_list<std::uint8_t>{0x00, 0xFF}) {
    const auto found = parse_slab_header(Bytes(2 * std::size_t{kBlockBytes}, fill));
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Code::corrupt);
  }
}

TEST_CASE("A slab of another version is refused, and the line names both versions") {
  SlabHeader header = sample_header();
  header.version = kDiskVersion + 1;
  reseal(header);

  const auto found = parse_slab_header(blocks_of(header, header));
  REQUIRE_FALSE(found);
  CHECK(found.error().code == Code::refused);
  CHECK(found.error().message() == "slab version " + std::to_string(kDiskVersion + 1) +
                                       ": this build reads version " +
                                       std::to_string(kDiskVersion));
}

TEST_CASE("A slab header of impossible geometry is corrupt, even under a right checksum") {
  using Change = std::function<void(SlabHeader&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"slot of no bytes", [](SlabHeader& h) { h.slot_bytes = 0; }},
      {"slot that is no whole number of blocks", [](SlabHeader& h) { h.slot_bytes += 1; }},
      {"slot larger than its payload asks for", [](SlabHeader& h) { h.slot_bytes += kBlockBytes; }},
      {"slot smaller than its payload", [](SlabHeader& h) { h.slot_bytes -= kBlockBytes; }},
      {"no slots", [](SlabHeader& h) { h.slot_count = 0; }},
      {"preallocation step of no slots", [](SlabHeader& h) { h.slots_per_step = 0; }},
      {"slots over the header", [](SlabHeader& h) { h.first_slot_offset = kBlockBytes; }},
      {"slots at no block boundary", [](SlabHeader& h) { h.first_slot_offset += 1; }},
      {"slots far away", [](SlabHeader& h) { h.first_slot_offset = 1ULL << 63; }},
      {"payload of another size", [](SlabHeader& h) { h.payload_bytes = 4096; }},
      {"no payload",
       [](SlabHeader& h) {
         h.payload_bytes = 0;
         h.slot_bytes = blob_bytes(0);
       }},
      {"payload beyond the limit",
       [](SlabHeader& h) {
         h.payload_bytes = kPayloadBytesMax + 1;
         h.slot_bytes = blob_bytes(h.payload_bytes);
       }},
      {"spare bytes in use", [](SlabHeader& h) { h.reserved = 1; }},
  };
  for (const auto& [name, change] : changes) {
    CAPTURE(name);
    SlabHeader header = sample_header();
    change(header);
    reseal(header);
    const auto found = parse_slab_header(blocks_of(header, header));
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Code::corrupt);
  }
}

TEST_CASE("Fewer bytes than both copies are our own error and end us") {
  CHECK(test::dies_by_check(
      [] { (void)parse_slab_header(Bytes(2 * std::size_t{kBlockBytes} - 1)); }));
}

}  // namespace hc::proto_test
