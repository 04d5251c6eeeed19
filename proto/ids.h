// SPDX-License-Identifier: Apache-2.0
// ids: strong types for hashes and numbers, so that two of them can't be swapped by accident.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>

namespace hc {

// 32-byte content hash of a page, chained on the page before it.
struct PageHash {
  std::array<std::uint8_t, 32> bytes{};
  friend bool operator==(const PageHash&, const PageHash&) = default;
  friend auto operator<=>(const PageHash&, const PageHash&) = default;

  // The hash is uniform, so any eight bytes of it place it in a table.
  std::uint64_t word(int index) const {
    std::uint64_t out = 0;
    std::memcpy(&out, bytes.data() + 8 * index, sizeof out);
    return out;
  }
};

// SHA-256 of the canonical encoding of a space; made in the daemon.
struct SpaceId {
  std::array<std::uint8_t, 32> bytes{};
  friend bool operator==(const SpaceId&, const SpaceId&) = default;
  friend auto operator<=>(const SpaceId&, const SpaceId&) = default;
};

// SHA-256 of the canonical encoding of a space without its weight version.
struct FamilyId {
  std::array<std::uint8_t, 32> bytes{};
  friend bool operator==(const FamilyId&, const FamilyId&) = default;
  friend auto operator<=>(const FamilyId&, const FamilyId&) = default;
};

using Uuid = std::array<std::uint8_t, 16>;

template <typename Tag, typename Number>
struct StrongId {
  Number value{};
  friend bool operator==(const StrongId&, const StrongId&) = default;
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
};

using SlotId = StrongId<struct SlotTag, std::uint32_t>;         // A place for a blob in a slab.
using SlabId = StrongId<struct SlabTag, std::uint16_t>;         // Index of a slab in the slab set.
using FamilyNo = StrongId<struct FamilyNoTag, std::uint16_t>;     // Index of a bound family.
using FrameId = StrongId<struct FrameTag, std::uint32_t>;       // A place for a blob in L2.
using PageId = StrongId<struct PageTag, std::uint32_t>;         // Record of a page in the catalog.
using SpaceNo = StrongId<struct SpaceNoTag, std::uint32_t>;     // Store-local number of a space.
using SessionId = StrongId<struct SessionTag, std::uint32_t>;   // Table slot | incarnation << 16.
using LeaseId = StrongId<struct LeaseTag, std::uint64_t>;       // Table slot | incarnation << 32.
using FileId = StrongId<struct FileTag, std::uint32_t>;         // A file opened by the Disk seam.
using Generation = StrongId<struct GenerationTag, std::uint32_t>;  // Store-wide write counter.

inline constexpr std::uint32_t kNone32 = 0xFFFFFFFFU;
inline constexpr SlotId kNoSlot{kNone32};
inline constexpr SlabId kNoSlab{0xFFFF};
inline constexpr FrameId kNoFrame{kNone32};
inline constexpr PageId kNoPage{kNone32};
inline constexpr LeaseId kNoLease{0};
inline constexpr Generation kNoGeneration{0};
inline constexpr std::uint16_t kShardReplicated = 0xFFFF;  // The shard of a replicated payload.

}  // namespace hc
