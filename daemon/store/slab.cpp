// SPDX-License-Identifier: Apache-2.0
// slab: legal moves of slots and steps, and the counts that follow from them.
#include "daemon/store/slab.h"

#include <algorithm>

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

bool holds_page(SlotState state) {
  return state == SlotState::writing || state == SlotState::written ||
         state == SlotState::committed;
}

bool is_in_use(SlotState state) {
  return holds_page(state) || state == SlotState::limbo || state == SlotState::unscanned;
}

}  // namespace

Slab::Slab(FileId file, const SlabHeader& header)
    : file_(file), header_(header), pool_(header.slot_count), slots_(header.slot_count) {
  HC_CHECK(header.slots_per_step > 0);
  steps_.resize((header.slot_count - 1U) / header.slots_per_step + 1U);
  slots_max_ = header.slot_count;
}

std::uint64_t Slab::slot_offset(SlotId slot) const {
  HC_CHECK(slot.value < slot_count());
  return header_.first_slot_offset + slot.value * header_.slot_bytes;
}

std::uint64_t Slab::file_bytes() const {
  return header_.first_slot_offset + header_.slot_count * header_.slot_bytes;
}

std::uint32_t Slab::slots_of_step(std::uint32_t step) const {
  HC_CHECK(step < step_count());
  return std::min(header_.slots_per_step, slot_count() - first_slot(step).value);
}

std::uint64_t Slab::step_bytes(std::uint32_t step) const {
  return slots_of_step(step) * header_.slot_bytes;
}

std::optional<std::uint32_t> Slab::absent_step() const {
  const auto found = std::find_if(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.state == StepState::absent;
  });
  if (found == steps_.end()) {
    return std::nullopt;
  }
  const auto step = static_cast<std::uint32_t>(found - steps_.begin());
  return slots_present_ + slots_of_step(step) <= slots_max_ ? std::optional(step) : std::nullopt;
}

// Highest first, so that the lowest is taken first.
void Slab::fill_pool(std::uint32_t step) {
  const std::uint32_t first = first_slot(step).value;
  for (std::uint32_t slot = first + slots_of_step(step); slot-- > first;) {
    if (slots_[slot].state == SlotState::free) {
      pool_.put(SlotId{slot});
    }
  }
}

void Slab::open_step(std::uint32_t step) {
  HC_CHECK(step < step_count());
  HC_CHECK(steps_[step].state != StepState::open);
  slots_present_ += steps_[step].state == StepState::absent ? slots_of_step(step) : 0;
  steps_[step].state = StepState::open;
  ++open_steps_;
  usable_count_ += slots_of_step(step) - steps_[step].quarantined;
  fill_pool(step);
}

void Slab::close_step(std::uint32_t step) {
  HC_CHECK(steps_[step].state == StepState::open);
  HC_CHECK(open_steps_ > 0);
  steps_[step].state = StepState::closing;
  --open_steps_;
  usable_count_ -= slots_of_step(step) - steps_[step].quarantined;
  const std::uint32_t first = first_slot(step).value;
  for (std::uint32_t slot = first; slot < first + slots_of_step(step); ++slot) {
    if (slots_[slot].state == SlotState::free) {
      pool_.remove(SlotId{slot});
    }
  }
}

void Slab::drop_step(std::uint32_t step) {
  HC_CHECK(steps_[step].state == StepState::closing);
  HC_CHECK(steps_[step].in_use == 0);
  HC_CHECK(slots_present_ >= slots_of_step(step));
  slots_present_ -= slots_of_step(step);
  steps_[step].state = StepState::absent;
}

// The one place where a state changes: legal moves only, counts follow.
void Slab::move(SlotId slot, SlotState to) {
  HC_CHECK(slot.value < slot_count());
  Slot& entry = slots_[slot.value];
  Step& step = steps_[step_of(slot)];
  HC_CHECK(step.state != StepState::absent);
  HC_CHECK(kSlotMoves[static_cast<std::size_t>(entry.state)][static_cast<std::size_t>(to)]);
  live_count_ -= holds_page(entry.state) ? 1U : 0U;
  limbo_count_ -= entry.state == SlotState::limbo ? 1U : 0U;
  unscanned_count_ -= entry.state == SlotState::unscanned ? 1U : 0U;
  step.unscanned -= entry.state == SlotState::unscanned ? 1U : 0U;
  step.in_use -= is_in_use(entry.state) ? 1U : 0U;
  entry.state = to;
  live_count_ += holds_page(to) ? 1U : 0U;
  limbo_count_ += to == SlotState::limbo ? 1U : 0U;
  unscanned_count_ += to == SlotState::unscanned ? 1U : 0U;
  step.unscanned += to == SlotState::unscanned ? 1U : 0U;
  step.in_use += is_in_use(to) ? 1U : 0U;
  if (to == SlotState::quarantined) {
    ++quarantined_count_;
    ++step.quarantined;
    usable_count_ -= step.state == StepState::open ? 1U : 0U;
  }
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
  if (steps_[step_of(slot)].state == StepState::open) {
    pool_.put(slot);
  }
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

void Slab::rebuild(const Found& found) {
  HC_CHECK(live_count_ == 0 && limbo_count_ == 0 && unscanned_count_ == 0 && open_steps_ == 0);
  std::vector<bool> wanted = found.unscanned_steps;
  wanted.resize(step_count());
  for (const Live& entry : found.live) {
    HC_CHECK(entry.slot.value < slot_count());
    wanted[step_of(entry.slot)] = true;
  }
  for (const SlotId slot : found.limbo) {
    HC_CHECK(slot.value < slot_count());
    wanted[step_of(slot)] = true;
  }
  for (std::uint32_t step = step_count(); step-- > 0;) {
    if (wanted[step]) {
      open_step(step);
    }
  }
  for (const Live& entry : found.live) {
    pool_.remove(entry.slot);
    move(entry.slot, SlotState::committed);
    slots_[entry.slot.value].generation = entry.generation;
  }
  for (const SlotId slot : found.limbo) {
    pool_.remove(slot);
    move(slot, SlotState::limbo);
  }
  for (std::uint32_t step = 0; step < found.unscanned_steps.size(); ++step) {
    if (found.unscanned_steps[step]) {
      leave_unscanned(step);
    }
  }
}

void Slab::leave_unscanned(std::uint32_t step) {
  const std::uint32_t first = first_slot(step).value;
  for (std::uint32_t slot = first; slot < first + slots_of_step(step); ++slot) {
    if (slots_[slot].state == SlotState::free) {
      pool_.remove(SlotId{slot});
      move(SlotId{slot}, SlotState::unscanned);
    }
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
  open_steps_ = 0;
  slots_present_ = 0;
  usable_count_ = 0;
  pool_.clear();
  for (std::uint32_t step = step_count(); step-- > 0;) {
    const StepState state = steps_[step].state;
    steps_[step] = Step{state == StepState::open ? StepState::absent : state, 0, 0, 0};
    HC_CHECK(state != StepState::closing);
    if (state == StepState::open) {
      open_step(step);
    }
  }
}

}  // namespace hc
