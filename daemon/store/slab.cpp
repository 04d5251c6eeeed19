// SPDX-License-Identifier: Apache-2.0
// slab: legal moves of slots, and the counts that follow from them.
#include "daemon/store/slab.h"

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

bool holds_page(SlotState state) {
  return state == SlotState::writing || state == SlotState::written ||
         state == SlotState::committed;
}

}  // namespace

Slab::Slab(FileId file, const SlabHeader& header)
    : file_(file), header_(header), pool_(header.slot_count), slots_(header.slot_count) {}

std::uint64_t Slab::slot_offset(SlotId slot) const {
  HC_CHECK(slot.value < slot_count());
  return header_.first_slot_offset + slot.value * header_.slot_bytes;
}

std::uint64_t Slab::file_bytes() const {
  return header_.first_slot_offset + header_.slot_count * header_.slot_bytes;
}

// The one place where a state changes: legal moves only, counts follow.
void Slab::move(SlotId slot, SlotState to) {
  HC_CHECK(slot.value < slot_count());
  Slot& entry = slots_[slot.value];
  HC_CHECK(kSlotMoves[static_cast<std::size_t>(entry.state)][static_cast<std::size_t>(to)]);
  live_count_ -= holds_page(entry.state) ? 1U : 0U;
  limbo_count_ -= entry.state == SlotState::limbo ? 1U : 0U;
  unscanned_count_ -= entry.state == SlotState::unscanned ? 1U : 0U;
  entry.state = to;
  live_count_ += holds_page(to) ? 1U : 0U;
  limbo_count_ += to == SlotState::limbo ? 1U : 0U;
  unscanned_count_ += to == SlotState::unscanned ? 1U : 0U;
  quarantined_count_ += to == SlotState::quarantined ? 1U : 0U;
}

std::optional<SlotId> Slab::take(Generation generation) {
  const auto slot = pool_.take();
  if (slot) {
    HC_CHECK(slots_[slot->value].pins == 0);
    move(*slot, SlotState::writing);
    slots_[slot->value].generation = generation;
  }
  return slot;
}

void Slab::mark_written(SlotId slot) { move(slot, SlotState::written); }
void Slab::mark_committed(SlotId slot) { move(slot, SlotState::committed); }
void Slab::mark_limbo(SlotId slot) { move(slot, SlotState::limbo); }
void Slab::mark_quarantined(SlotId slot) { move(slot, SlotState::quarantined); }

void Slab::cancel_write(SlotId slot) {
  HC_CHECK(slots_[slot.value].state == SlotState::writing);
  release(slot);
}

void Slab::release(SlotId slot) {
  Slot& entry = slots_[slot.value];
  HC_CHECK(entry.pins == 0);
  move(slot, SlotState::free);
  entry.leaves_limbo = false;
  entry.generation = kNoGeneration;
  pool_.free(slot);
}

void Slab::leave_limbo(SlotId slot) {
  Slot& entry = slots_[slot.value];
  HC_CHECK(entry.state == SlotState::limbo);
  HC_CHECK(!entry.leaves_limbo);
  if (entry.pins > 0 && !HC_MUTANT(pin_ignored)) {
    entry.leaves_limbo = true;
    return;
  }
  release(slot);
}

void Slab::pin(SlotId slot) {
  Slot& entry = slots_[slot.value];
  HC_CHECK(entry.state == SlotState::written || entry.state == SlotState::committed);
  HC_CHECK(entry.pins < 0xFFFF);
  ++entry.pins;
}

void Slab::unpin(SlotId slot) {
  Slot& entry = slots_[slot.value];
  HC_CHECK(entry.pins > 0);
  --entry.pins;
  if (entry.pins == 0 && entry.leaves_limbo) {
    release(slot);
  }
}

void Slab::rebuild(const std::vector<Live>& live, const std::vector<SlotId>& limbo, Rest rest) {
  HC_CHECK(live_count_ == 0 && limbo_count_ == 0 && unscanned_count_ == 0);
  std::vector<SlotId> taken = limbo;
  for (const Live& entry : live) {
    taken.push_back(entry.slot);
  }
  if (rest == Rest::unscanned) {
    std::vector<bool> known(slots_.size());
    for (const SlotId slot : taken) {
      known[slot.value] = true;
    }
    for (std::uint32_t slot = 0; slot < known.size(); ++slot) {
      if (!known[slot]) {
        taken.push_back(SlotId{slot});
        move(SlotId{slot}, SlotState::unscanned);
      }
    }
  }
  pool_.rebuild(taken);
  for (const Live& entry : live) {
    move(entry.slot, SlotState::committed);
    slots_[entry.slot.value].generation = entry.generation;
  }
  for (const SlotId slot : limbo) {
    move(slot, SlotState::limbo);
  }
}

void Slab::adopt_unscanned(SlotId slot, Generation generation) {
  HC_CHECK(slots_[slot.value].state == SlotState::unscanned);
  move(slot, SlotState::written);
  slots_[slot.value].generation = generation;
}

void Slab::free_unscanned(SlotId slot) {
  HC_CHECK(slots_[slot.value].state == SlotState::unscanned);
  release(slot);
}

void Slab::reset() {
  for (const Slot& slot : slots_) {
    HC_CHECK(slot.pins == 0);
    HC_CHECK(slot.state != SlotState::writing);
  }
  slots_.assign(slots_.size(), Slot{});
  live_count_ = 0;
  limbo_count_ = 0;
  quarantined_count_ = 0;
  unscanned_count_ = 0;
  pool_.reset();
}

}  // namespace hc
