// SPDX-License-Identifier: Apache-2.0
// stream: the bytes that a payload must hold, as a function of (hash, shard, kind, offset).
//
// Owner thread: any; there is no state. Any range can be made alone, so a payload may be cut into
// runs at will. Eight bytes cost one multiplication, so that making and comparing bytes does not
// hide what the daemon costs.
#pragma once

#include <cstdint>
#include <span>

namespace hc {

struct StreamKey {
  std::uint64_t hash = 0;   // id of the block
  std::uint16_t shard = 0;  // kShardReplicated for bytes that are equal on every rank
  std::uint16_t kind = 0;
};

// Writes bytes [offset, offset + out.size()) of the stream.
void fill_stream(const StreamKey& key, std::uint64_t offset_bytes, std::span<std::uint8_t> out);

struct StreamMismatch {
  std::uint64_t wrong_bytes = 0;
  std::uint64_t first_offset = 0;  // in the stream; meaningful with wrong_bytes > 0
};
// Compares every byte of `in` with the stream from `offset_bytes` on.
StreamMismatch compare_stream(const StreamKey& key, std::uint64_t offset_bytes,
                              std::span<const std::uint8_t> in);

}  // namespace hc
