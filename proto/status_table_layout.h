// SPDX-License-Identifier: Apache-2.0
// status_table_layout: the bytes of the read-only table of a space, from which a client answers
// exists_prefix with no system call.
//
// Open addressing with linear probing; the home of a page is a mix of its hash with the key of the
// table (status_home), modulo the capacity (a power of two). Opaque keys need not be uniform, and a
// client that makes up hashes can't crowd a table before it has seen its key.
// One writer. Each entry is guarded by its own sequence (odd while being written). A deletion
// shifts later entries back and raises `moves` before and after; a reader that did not find its
// page and saw `moves` change or odd looks again.
// The table is advisory: a reload verifies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/ids.h"
#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::uint32_t kStatusTableMagic = 0x54434948;  // "HICT"

struct StatusTableHeader {
  std::uint32_t magic;
  std::uint32_t protocol;
  std::uint64_t fingerprint;
  std::uint64_t capacity;   // entries; a power of two
  SpaceId space;
  std::uint64_t key;        // of status_home; drawn anew for each table
  std::uint32_t moves;      // odd while entries are being shifted
  std::uint32_t pages;      // entries in use
  std::uint8_t pad1[56];
};
static_assert(WireStruct<StatusTableHeader> && sizeof(StatusTableHeader) == 128);
static_assert(offsetof(StatusTableHeader, moves) == 64);

// Bit p of each mask speaks of part p (parts_of in space.h).
struct StatusEntry {
  std::uint32_t sequence;   // odd while being written
  std::uint32_t remote;     // bit 0: in use; bits 8..31: held by other nodes (later)
  PageHash hash;
  std::uint64_t resident;   // in L2
  std::uint64_t stored;     // written to its slot, or better
  std::uint64_t durable;    // in the committed index
};
static_assert(WireStruct<StatusEntry> && sizeof(StatusEntry) == 64);

inline constexpr std::uint32_t kStatusInUse = 1;
inline constexpr std::uint64_t kStatusEntriesOffset = 4096;

struct PageStatus {
  std::uint64_t resident = 0;
  std::uint64_t stored = 0;
  std::uint64_t durable = 0;
  std::uint32_t remote = 0;
};

// The home before the modulo: both halves of 128-bit products, two words of the hash at a time.
// A key of 0 takes word 0 as it is (tests and the simulation, which want to choose homes).
constexpr std::uint64_t status_home(const std::uint64_t (&hash)[4], std::uint64_t key) {
  __extension__ using Wide = unsigned __int128;
  if (key == 0) {
    return hash[0];
  }
  const auto fold = [](std::uint64_t a, std::uint64_t b) {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  const std::uint64_t low = fold(hash[0] ^ key, hash[1] ^ 0x9E3779B97F4A7C15U);
  const std::uint64_t high = fold(hash[2] ^ low, hash[3] ^ 0xC2B2AE3D27D4EB4FU);
  return fold(high ^ key, low ^ 0xD6E8FEB86659FD93U);
}

constexpr std::uint64_t status_table_bytes(std::uint64_t capacity) {
  return kStatusEntriesOffset + capacity * sizeof(StatusEntry);
}

}  // namespace hc
