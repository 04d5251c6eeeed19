// SPDX-License-Identifier: Apache-2.0
// status_entry: an entry of the status table as the words that its writer and readers touch.
//
// Owner thread: none; a layout. The same 64 bytes as StatusEntry, with the hash as four words,
// because shared memory is only touched by whole atomic words.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "proto/status_table_layout.h"

namespace hc {

using HashWords = std::array<std::uint64_t, 4>;

struct StatusWords {
  std::uint32_t sequence;
  std::uint32_t remote;
  std::uint64_t hash[4];
  std::uint64_t resident;
  std::uint64_t stored;
  std::uint64_t durable;
};
static_assert(sizeof(StatusWords) == sizeof(StatusEntry));
static_assert(offsetof(StatusWords, sequence) == offsetof(StatusEntry, sequence));
static_assert(offsetof(StatusWords, remote) == offsetof(StatusEntry, remote));
static_assert(offsetof(StatusWords, hash) == offsetof(StatusEntry, hash));
static_assert(offsetof(StatusWords, resident) == offsetof(StatusEntry, resident));
static_assert(offsetof(StatusWords, stored) == offsetof(StatusEntry, stored));
static_assert(offsetof(StatusWords, durable) == offsetof(StatusEntry, durable));

inline HashWords hash_words(const PageHash& hash) {
  return std::bit_cast<HashWords>(hash.bytes);
}

inline std::uint64_t home_of(const HashWords& hash, std::uint64_t key) {
  return status_home({hash[0], hash[1], hash[2], hash[3]}, key);
}

// No entry lies farther than this from its home, so a lookup is bounded whatever the hashes are.
// Hashes that are uniform never come near it in a table that is at most half full.
inline constexpr std::uint64_t kStatusProbeMax = 1024;
inline constexpr std::uint64_t kStatusCapacityMin = 2;
inline constexpr std::uint64_t kStatusCapacityMax = 1ULL << 30;
inline constexpr std::uint32_t kStatusRemoteMask = 0xFFFFFF00U;

constexpr bool status_capacity_is_good(std::uint64_t capacity) {
  return capacity >= kStatusCapacityMin && capacity <= kStatusCapacityMax &&
         std::has_single_bit(capacity);
}

}  // namespace hc
