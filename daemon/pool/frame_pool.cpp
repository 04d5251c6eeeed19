// SPDX-License-Identifier: Apache-2.0
// frame_pool: free list and generations of frames.
#include "daemon/pool/frame_pool.h"

#include <cstring>

#include "proto/blob_header.h"
#include "proto/check.h"

namespace hc {

FramePool::FramePool(ArenaSet& arenas, std::uint16_t kind)
    : arenas_(arenas), kind_(kind), states_(arenas.frame_count(kind), State::free) {
  free_.reserve(states_.size());
  for (std::uint32_t frame = frame_count(); frame-- > 0;) {
    arenas_.generations().begin_change(arenas_.generation_index(kind_, FrameId{frame}));
    free_.push_back(FrameId{frame});
  }
}

std::optional<FrameId> FramePool::take() {
  if (free_.empty()) {
    return std::nullopt;
  }
  const FrameId frame = free_.back();
  free_.pop_back();
  HC_CHECK(states_[frame.value] == State::free);
  states_[frame.value] = State::filling;
  return frame;
}

void FramePool::publish(FrameId frame) {
  HC_CHECK(frame.value < frame_count());
  HC_CHECK(states_[frame.value] == State::filling);
  states_[frame.value] = State::published;
  arenas_.generations().end_change(arenas_.generation_index(kind_, frame));
}

void FramePool::give_back(FrameId frame) {
  HC_CHECK(frame.value < frame_count());
  HC_CHECK(states_[frame.value] != State::free);
  if (states_[frame.value] == State::published) {
    arenas_.generations().begin_change(arenas_.generation_index(kind_, frame));
  }
  std::memset(header(frame), 0, sizeof(BlobHeader));
  states_[frame.value] = State::free;
  free_.push_back(frame);
}

std::uint8_t* FramePool::payload(FrameId frame) { return header(frame) + kBlockBytes; }

std::uint64_t FramePool::generation(FrameId frame) const {
  return arenas_.generations().current(arenas_.generation_index(kind_, frame));
}

}  // namespace hc
