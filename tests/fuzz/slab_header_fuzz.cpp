// SPDX-License-Identifier: Apache-2.0
// slab_header_fuzz: the two copies of a slab header, of any bytes.
//
// Input: flags (bit 0, bit 1: right checksum of the first, second copy), then the two copies.
#include "proto/slab_header.h"

#include "proto/blob_header.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace hc;
  fuzz::Input input(data, size_bytes);
  const std::uint8_t flags = input.byte();
  fuzz::Bytes blocks(std::size_t{kSlabHeaderCopies} * kBlockBytes);
  for (std::uint32_t copy = 0; copy < kSlabHeaderCopies; ++copy) {
    const std::size_t at = std::size_t{copy} * kBlockBytes;
    fuzz::place(blocks, at, input.take(sizeof(SlabHeader)));
    if ((flags >> copy & 1) != 0) {
      fuzz::reseal(blocks.data() + at, sizeof(SlabHeader));
    }
  }

  const auto found = parse_slab_header(blocks);
  if (!found) {
    HC_CHECK(!found.error().message().empty());
    return 0;
  }
  HC_CHECK(found->slots_per_step > 0 && found->slot_count > 0);
  HC_CHECK(found->slot_bytes == blob_bytes(found->payload_bytes));
  HC_CHECK(found->first_slot_offset >= blocks.size());
  // The end of the last slot must be a file offset.
  const std::uint64_t end = found->first_slot_offset + found->slot_count * found->slot_bytes;
  HC_CHECK(end / found->slot_bytes >= found->slot_count && end <= INT64_MAX);
  SlabHeader again = *found;
  seal_slab_header(again);
  HC_CHECK(std::memcmp(&again, &*found, sizeof again) == 0);
  return 0;
}
