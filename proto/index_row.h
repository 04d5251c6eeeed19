// SPDX-License-Identifier: Apache-2.0
// index_row: the bytes of one row of the index: (space, page hash) -> where its parts lie.
//
// The key is the SpaceNo as big-endian u32 (so that a space is one range) and the page hash. The
// value is a header and one entry per stored part. The value carries its own checksum over key
// and value, because LMDB 0.9 has none.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::size_t kIndexKeyBytes = 36;

struct IndexRowHeader {
  std::uint32_t row_crc;      // rotten row, row under a wrong key; covers key and value
  std::uint16_t version;
  std::uint16_t part_count;
  std::uint64_t last_access;  // logical clock of the node
  std::uint64_t reserved;     // zero; room for remote placement
};
static_assert(WireStruct<IndexRowHeader> && sizeof(IndexRowHeader) == 24);

struct IndexRowPart {
  std::uint16_t kind;
  std::uint16_t shard;   // kShardReplicated for a replicated kind
  std::uint16_t owner;   // owner of the page for an owned kind, else 0
  std::uint16_t volume;
  std::uint32_t slot;
  std::uint32_t generation;
  friend bool operator==(const IndexRowPart&, const IndexRowPart&) = default;
};
static_assert(WireStruct<IndexRowPart> && sizeof(IndexRowPart) == 16);

struct IndexRow {
  SpaceNo space;
  PageHash page;
  std::uint64_t last_access = 0;
  std::vector<IndexRowPart> parts;
  friend bool operator==(const IndexRow&, const IndexRow&) = default;
};

std::array<std::uint8_t, kIndexKeyBytes> encode_index_key(SpaceNo space, const PageHash& page);
std::vector<std::uint8_t> encode_index_value(const IndexRow& row);
// Parses hostile bytes; corrupt when the row does not verify.
Result<IndexRow> decode_index_row(std::span<const std::uint8_t> key,
                                  std::span<const std::uint8_t> value);

}  // namespace hc
