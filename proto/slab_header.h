// SPDX-License-Identifier: Apache-2.0
// slab_header: the first blocks of a slab file: whose it is and how it is cut.
//
// Two equal copies, one in each of the first two 4 KiB blocks; either one opens the slab.
// Slots follow at `first_slot_offset`. The header never changes after the slab was created.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::uint32_t kSlabMagic = 0x53434948;  // "HICS"
inline constexpr std::uint32_t kSlabHeaderCopies = 2;
inline constexpr std::uint64_t kFirstSlotOffset = 16 * kBlockBytes;

struct SlabHeader {
  std::uint32_t header_crc;       // torn or rotten header; covers the rest
  std::uint32_t magic;            // not a slab
  std::uint16_t version;          // another format
  std::uint16_t kind;             // which payload kind of the family
  std::uint16_t shard;            // which shard; kShardReplicated for a replicated kind
  std::uint16_t volume;           // which volume of the store wrote it
  Uuid store_uuid;                // a slab of another store
  FamilyId family;                // a slab of another family
  std::uint64_t slot_bytes;       // blob size: header block + payload, rounded up
  std::uint64_t first_slot_offset;
  std::uint32_t slot_count;
  std::uint32_t slots_per_step;   // preallocation step, in slots
  std::uint32_t payload_bytes;
  std::uint32_t reserved;         // zero
};
static_assert(WireStruct<SlabHeader> && sizeof(SlabHeader) == 96);
static_assert(offsetof(SlabHeader, store_uuid) == 16 && offsetof(SlabHeader, slot_bytes) == 64);

void seal_slab_header(SlabHeader& header);  // Sets magic, version and checksum.
// Judges both copies (8 KiB) and returns the first good one.
Result<SlabHeader> parse_slab_header(std::span<const std::uint8_t> blocks);

}  // namespace hc
