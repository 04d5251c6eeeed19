// SPDX-License-Identifier: Apache-2.0
// superblock: identity and epochs of one store; the commit point of clear.
//
// Two alternating copies, each with its own sequence and checksum: a torn write leaves the
// other copy. The valid copy with the higher sequence counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::uint32_t kSuperblockMagic = 0x50434948;  // "HICP"
inline constexpr std::uint64_t kSuperblockCopyBytes = 64U << 10;
inline constexpr std::uint32_t kSuperblockCopies = 2;

// One space that this store knows. The index of an entry is the SpaceNo that index rows carry, so
// an entry stays where it is. A clear of the store frees the entries that nobody uses; a free one
// has an id of zeros.
struct SpaceEpoch {
  SpaceId space;
  std::uint64_t epoch;  // Raised by `clear --space`; seeds the blob headers of the space.
};
static_assert(WireStruct<SpaceEpoch> && sizeof(SpaceEpoch) == 40);

struct Superblock {
  std::uint32_t superblock_crc;   // torn or rotten copy; covers the rest
  std::uint32_t magic;            // not a superblock
  std::uint16_t version;          // another format
  std::uint16_t volumes;          // bit n: volume n has been claimed; volume 0 needs none
  std::uint32_t space_count;      // entries used in `spaces`
  std::uint64_t sequence;         // which copy is newer
  std::uint64_t epoch;            // raised by `clear`; seeds every blob header
  Uuid store_uuid;                // seeds every blob header; names the store
  std::uint32_t generation_high;  // no generation at or above it has been used
  std::uint32_t reserved2;        // zero
  std::array<SpaceEpoch, kSpaceEpochsMax> spaces;
};
static_assert(WireStruct<Superblock> && sizeof(Superblock) == 56 + 40 * kSpaceEpochsMax);
static_assert(sizeof(Superblock) <= kSuperblockCopyBytes);

void seal_superblock(Superblock& superblock);  // Sets magic, version and checksum.
// Judges both copies (2 * kSuperblockCopyBytes) and returns the newer good one; not_found when
// the file was never written, refused when the format is another one.
// How many of the two copies verify.
std::uint32_t good_superblock_copies(std::span<const std::uint8_t> copies);
Result<Superblock> parse_superblock(std::span<const std::uint8_t> copies);

}  // namespace hc
