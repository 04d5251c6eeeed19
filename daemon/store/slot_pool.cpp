// SPDX-License-Identifier: Apache-2.0
// slot_pool: a last-in first-out list, linked both ways so that a step's slots can leave it.
#include "daemon/store/slot_pool.h"

#include "proto/check.h"

namespace hc {

SlotPool::SlotPool(std::uint32_t slot_count) : links_(slot_count), free_(slot_count, false) {
  HC_CHECK(slot_count > 0);
  HC_CHECK(slot_count < kNone32);
}

std::optional<SlotId> SlotPool::take() {
  if (head_ == kNone32) {
    HC_CHECK(free_count_ == 0);
    return std::nullopt;
  }
  const SlotId slot{head_};
  remove(slot);
  return slot;
}

void SlotPool::put(SlotId slot) {
  HC_CHECK(!contains(slot));
  links_[slot.value] = {head_, kNone32};
  if (head_ != kNone32) {
    links_[head_].previous = slot.value;
  }
  head_ = slot.value;
  free_[slot.value] = true;
  ++free_count_;
}

void SlotPool::remove(SlotId slot) {
  HC_CHECK(contains(slot));
  HC_CHECK(free_count_ > 0);
  const Link link = links_[slot.value];
  (link.previous == kNone32 ? head_ : links_[link.previous].next) = link.next;
  if (link.next != kNone32) {
    links_[link.next].previous = link.previous;
  }
  free_[slot.value] = false;
  --free_count_;
}

void SlotPool::clear() {
  free_.assign(free_.size(), false);
  head_ = kNone32;
  free_count_ = 0;
}

bool SlotPool::contains(SlotId slot) const {
  HC_CHECK(slot.value < slot_count());
  return free_[slot.value];
}

}  // namespace hc
