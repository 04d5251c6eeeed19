// SPDX-License-Identifier: Apache-2.0
// frame_pool: which frames of one kind are free, and the generation of each.
//
// Owner: the reactor thread.
// Invariants:
//   - free + taken == frame_count
//   - a frame's generation is even exactly while it is published
// Misuse (double free, publish of a free frame) is our bug and aborts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/pool/arena_set.h"
#include "proto/ids.h"

namespace hc {

class FramePool {
 public:
  FramePool(ArenaSet& arenas, std::uint16_t kind);

  // A frame to fill. Its bytes may be written until publish; readers of its former content see
  // an odd generation.
  std::optional<FrameId> take();
  // The bytes are whole from here on. The generation is what a reader must still find after its
  // copy.
  void publish(FrameId frame);
  // Published or not: back to the free list, its header zeroed.
  void give_back(FrameId frame);

  std::uint8_t* header(FrameId frame) { return arenas_.frame(kind_, frame); }
  std::uint8_t* payload(FrameId frame);
  std::uint64_t generation(FrameId frame) const;
  bool is_published(FrameId frame) const { return states_[frame.value] == State::published; }

  std::uint32_t frame_count() const { return static_cast<std::uint32_t>(states_.size()); }
  std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }

 private:
  enum class State : std::uint8_t { free, filling, published };

  ArenaSet& arenas_;
  std::uint16_t kind_;
  std::vector<State> states_;
  std::vector<FrameId> free_;
};

}  // namespace hc
