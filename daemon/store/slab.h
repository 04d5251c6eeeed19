// SPDX-License-Identifier: Apache-2.0
// slab: one slab file in memory: its preallocation steps, and the state, the pins and the
// generation of every slot.
//
// Owner: the reactor thread.
// Invariants:
//   - a slot can be taken exactly when its state is free and its step is open
//   - a pinned slot (a read is in flight on it) is never free
//   - a slot leaves limbo only after the commit that erased its row, and without pins
//   - an unscanned slot may hold a blob that no row names: free or live once its header was read
//   - a step is absent only when every slot in it is free or quarantined
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/store/slot_pool.h"
#include "proto/slab_header.h"

namespace hc {

enum class SlotState : std::uint8_t {
  free,
  writing,
  written,
  committed,
  limbo,
  quarantined,
  unscanned,
};
inline constexpr std::size_t kSlotStates = 7;

// Row: from, column: to.
inline constexpr std::array<std::array<bool, kSlotStates>, kSlotStates> kSlotMoves = {{
    //            free   writing written commit limbo  quarantined unscanned
    // From free to committed, limbo or unscanned: by recovery, which finds it live, named by a row
    // that it has dropped, or can't know. Found by its header it is written: nobody may have
    // flushed it.
    /* free */ {{false, true, false, true, true, false, true}},
    /* writing */ {{true, false, true, false, true, true, false}},  // free: the write failed
    /* written */ {{false, false, false, true, true, true, false}},
    /* committed */ {{false, false, false, false, true, true, false}},
    /* limbo */ {{true, false, false, false, false, true, false}},
    /* quarantined */ {{false, false, false, false, false, false, false}},
    /* unscanned */ {{true, false, true, false, true, true, false}},
}};

// Every state can be reached, and every state but quarantined can be left.
constexpr bool slot_moves_are_complete() {
  for (std::size_t state = 0; state < kSlotStates; ++state) {
    bool in = false;
    bool out = false;
    for (std::size_t other = 0; other < kSlotStates; ++other) {
      in = in || kSlotMoves[other][state];
      out = out || kSlotMoves[state][other];
    }
    const bool is_end = state == static_cast<std::size_t>(SlotState::quarantined);
    if (!in || out == is_end) {
      return false;
    }
  }
  return true;
}
static_assert(slot_moves_are_complete());

// absent -> open -> closing -> absent, or closing -> open when it could not be emptied.
enum class StepState : std::uint8_t {
  absent,   // no space on the disk
  open,     // its slots are in use or can be taken
  closing,  // no slot of it is handed out any more; it goes when none is in use
};

class Slab {
 public:
  Slab(FileId file, const SlabHeader& header);  // every step is absent

  FileId file() const { return file_; }
  const SlabHeader& header() const { return header_; }
  std::uint16_t volume() const { return header_.volume; }
  std::uint64_t slot_offset(SlotId slot) const;
  std::uint64_t file_bytes() const;
  // Whether the file has its header: it gets it with its first step.
  bool born() const { return born_; }
  void set_born() { born_ = true; }

  std::optional<SlotId> take(Generation generation);  // free -> writing
  void mark_written(SlotId slot);
  void mark_committed(SlotId slot);
  void mark_limbo(SlotId slot);
  void mark_quarantined(SlotId slot);  // never handed out again until clear
  void cancel_write(SlotId slot);      // writing -> free; nothing reached the device
  void leave_limbo(SlotId slot);       // -> free now, or when the last pin goes

  void pin(SlotId slot);
  void unpin(SlotId slot);

  // Steps.
  std::uint32_t step_count() const { return static_cast<std::uint32_t>(steps_.size()); }
  std::uint32_t step_of(SlotId slot) const { return slot.value / header_.slots_per_step; }
  SlotId first_slot(std::uint32_t step) const { return {step * header_.slots_per_step}; }
  std::uint32_t slots_of_step(std::uint32_t step) const;
  std::uint64_t step_bytes(std::uint32_t step) const;
  StepState step_state(std::uint32_t step) const { return steps_[step].state; }
  std::uint32_t step_in_use(std::uint32_t step) const { return steps_[step].in_use; }
  std::uint32_t step_unscanned(std::uint32_t step) const { return steps_[step].unscanned; }
  std::uint32_t open_steps() const { return open_steps_; }
  // The first absent one, unless the slab has all the slots that the budget means for it.
  std::optional<std::uint32_t> absent_step() const;
  // The budget may have been lowered since the slab was made.
  void set_slots_max(std::uint32_t slots) { slots_max_ = std::min(slots, slot_count()); }
  std::uint32_t slots_max() const { return slots_max_; }
  std::uint32_t slots_present() const { return slots_present_; }  // of steps that are not absent
  void open_step(std::uint32_t step);                // absent, or closing after all
  void close_step(std::uint32_t step);
  void drop_step(std::uint32_t step);                // closing, nothing of it in use

  // Recovery: exactly the slots of `live` are committed, those of `limbo` wait for the commit that
  // erases their rows, all others are free. No slot stands twice; nothing may be pinned. The steps
  // of these slots are open, all others absent.
  struct Live {
    SlotId slot;
    Generation generation;
  };
  // By step: open, and every slot of it that is not in the two lists is unscanned.
  struct Found {
    std::vector<Live> live;
    std::vector<SlotId> limbo;
    std::vector<bool> unscanned_steps;
  };
  void rebuild(const Found& found);
  // Its header was read: it holds this blob, or nothing (and no row names it).
  void adopt_unscanned(SlotId slot, Generation generation);
  void free_unscanned(SlotId slot);
  // Clear: every slot is free; open steps stay open. Nothing is pinned or being written, no step is
  // closing: the caller waits for that.
  void reset();

  SlotState state(SlotId slot) const { return slots_[slot.value].state; }
  Generation generation(SlotId slot) const { return slots_[slot.value].generation; }
  std::uint32_t pins(SlotId slot) const { return slots_[slot.value].pins; }
  std::uint32_t slot_count() const { return pool_.slot_count(); }
  std::uint32_t free_count() const { return pool_.free_count(); }
  // Slots that a page holds: everything but free, limbo and quarantined.
  std::uint32_t live_count() const { return live_count_; }
  std::uint32_t limbo_count() const { return limbo_count_; }
  std::uint32_t quarantined_count() const { return quarantined_count_; }
  std::uint32_t unscanned_count() const { return unscanned_count_; }
  // Slots of open steps that can hold a page, now or later.
  std::uint32_t usable_count() const { return usable_count_; }

 private:
  struct Slot {
    SlotState state = SlotState::free;
    bool leaves_limbo = false;  // its commit is done; a pin holds it back
    std::uint16_t pins = 0;
    Generation generation = kNoGeneration;
  };
  struct Step {
    StepState state = StepState::absent;
    std::uint32_t in_use = 0;       // slots that are neither free nor quarantined
    std::uint32_t quarantined = 0;
    std::uint32_t unscanned = 0;
  };
  void move(SlotId slot, SlotState to);
  void release(SlotId slot);
  void fill_pool(std::uint32_t step);
  void leave_unscanned(std::uint32_t step);

  FileId file_;
  SlabHeader header_;
  SlotPool pool_;
  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  bool born_ = false;
  std::uint32_t open_steps_ = 0;
  std::uint32_t slots_max_ = 0;
  std::uint32_t slots_present_ = 0;
  std::uint32_t usable_count_ = 0;
  std::uint32_t live_count_ = 0;
  std::uint32_t limbo_count_ = 0;
  std::uint32_t quarantined_count_ = 0;
  std::uint32_t unscanned_count_ = 0;
};

}  // namespace hc
