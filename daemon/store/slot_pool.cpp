// SPDX-License-Identifier: Apache-2.0
// slot_pool: a last-in first-out free list beside one bit per slot.
#include "daemon/store/slot_pool.h"

#include "proto/check.h"

namespace hc {

SlotPool::SlotPool(std::uint32_t slot_count) : next_(slot_count), taken_(slot_count, false) {
  HC_CHECK(slot_count > 0);
  HC_CHECK(slot_count < kNone32);
  link_free_slots();
}

// Links every slot whose bit is clear, lowest first, and counts them.
void SlotPool::link_free_slots() {
  head_ = kNone32;
  free_count_ = 0;
  for (std::uint32_t slot = slot_count(); slot-- > 0;) {
    if (!taken_[slot]) {
      next_[slot] = head_;
      head_ = slot;
      ++free_count_;
    }
  }
}

std::optional<SlotId> SlotPool::take() {
  if (head_ == kNone32) {
    HC_CHECK(free_count_ == 0);
    return std::nullopt;
  }
  const std::uint32_t slot = head_;
  HC_CHECK(!taken_[slot]);
  HC_CHECK(free_count_ > 0);
  head_ = next_[slot];
  taken_[slot] = true;
  --free_count_;
  return SlotId{slot};
}

void SlotPool::free(SlotId slot) {
  HC_CHECK(slot.value < slot_count());
  HC_CHECK(taken_[slot.value]);
  taken_[slot.value] = false;
  next_[slot.value] = head_;
  head_ = slot.value;
  ++free_count_;
}

void SlotPool::reset() {
  taken_.assign(taken_.size(), false);
  link_free_slots();
}

void SlotPool::rebuild(std::span<const SlotId> taken) {
  taken_.assign(taken_.size(), false);
  for (const SlotId slot : taken) {
    HC_CHECK(slot.value < slot_count());
    HC_CHECK(!taken_[slot.value]);
    taken_[slot.value] = true;
  }
  link_free_slots();
  HC_CHECK(slot_count() - free_count_ == taken.size());
}

bool SlotPool::is_taken(SlotId slot) const {
  HC_CHECK(slot.value < slot_count());
  return taken_[slot.value];
}

}  // namespace hc
