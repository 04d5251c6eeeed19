// SPDX-License-Identifier: Apache-2.0
// meta_rows: the bytes of the index's few rows beside pages: spaces, whose index it is, and how far
// it has come.
//
// All carry their own checksum, because LMDB 0.9 has none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/index/index.h"
#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::size_t kSpaceKeyBytes = 4;  // SpaceNo, big-endian
inline constexpr std::string_view kIdentityKey = "identity";
inline constexpr std::string_view kStateKey = "state";

// Stands before the encoded space descriptor.
struct SpaceRowHeader {
  std::uint32_t row_crc;         // rotten row, row under a wrong key; covers key and value
  std::uint16_t version;
  std::uint16_t shards_on_node;
};
static_assert(WireStruct<SpaceRowHeader> && sizeof(SpaceRowHeader) == 8);
static_assert(offsetof(SpaceRowHeader, version) == 4);

struct IdentityRow {
  std::uint32_t row_crc;         // covers the rest
  std::uint16_t version;
  std::uint16_t reserved;        // zero
  std::uint64_t store_epoch;
  Uuid store_uuid;
};
static_assert(WireStruct<IdentityRow> && sizeof(IdentityRow) == 32);
static_assert(offsetof(IdentityRow, store_epoch) == 8);

struct StateRow {
  std::uint32_t row_crc;         // covers the rest
  std::uint16_t version;
  std::uint16_t rebuilding;      // 0 or 1
  std::uint64_t commit_sequence;
};
static_assert(WireStruct<StateRow> && sizeof(StateRow) == 16);
static_assert(offsetof(StateRow, commit_sequence) == 8);

std::array<std::uint8_t, kSpaceKeyBytes> encode_space_key(SpaceNo number);
std::vector<std::uint8_t> encode_space_row(const IndexSpace& space);
// Parses hostile bytes; corrupt when the row does not verify.
Result<IndexSpace> decode_space_row(std::span<const std::uint8_t> key,
                                    std::span<const std::uint8_t> value);

std::array<std::uint8_t, sizeof(IdentityRow)> encode_identity(const IndexIdentity& identity);
Result<IndexIdentity> decode_identity(std::span<const std::uint8_t> value);

std::array<std::uint8_t, sizeof(StateRow)> encode_state(const IndexState& state);
Result<IndexState> decode_state(std::span<const std::uint8_t> value);

// Whether a row of these rows, by its key, verifies.
Result<void> judge_meta_row(std::span<const std::uint8_t> key,
                            std::span<const std::uint8_t> value);

}  // namespace hc
