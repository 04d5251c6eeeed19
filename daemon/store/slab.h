// SPDX-License-Identifier: Apache-2.0
// slab: one slab file in memory: the state, the pins and the generation of every slot.
//
// Owner: the reactor thread.
// Invariants:
//   - a slot is taken in the pool exactly when its state is not free
//   - a pinned slot (a read is in flight on it) is never free
//   - a slot leaves limbo only after the commit that erased its row, and without pins
//   - an unscanned slot may hold a blob that no row names: free or live once its header was read
#pragma once

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

class Slab {
 public:
  Slab(FileId file, const SlabHeader& header);

  FileId file() const { return file_; }
  const SlabHeader& header() const { return header_; }
  std::uint64_t slot_offset(SlotId slot) const;
  std::uint64_t file_bytes() const;

  std::optional<SlotId> take(Generation generation);  // free -> writing
  void mark_written(SlotId slot);
  void mark_committed(SlotId slot);
  void mark_limbo(SlotId slot);
  void mark_quarantined(SlotId slot);  // never handed out again until clear
  void cancel_write(SlotId slot);      // writing -> free; nothing reached the device
  void leave_limbo(SlotId slot);       // -> free now, or when the last pin goes

  void pin(SlotId slot);
  void unpin(SlotId slot);

  // Recovery: exactly the slots of `live` are committed, those of `limbo` wait for the commit that
  // erases their rows, all others are free. No slot stands twice; nothing may be pinned.
  struct Live {
    SlotId slot;
    Generation generation;
  };
  enum class Rest : std::uint8_t { free, unscanned };
  void rebuild(const std::vector<Live>& live, const std::vector<SlotId>& limbo,
               Rest rest = Rest::free);
  // Its header was read: it holds this blob, or nothing (and no row names it).
  void adopt_unscanned(SlotId slot, Generation generation);
  void free_unscanned(SlotId slot);
  // Clear: every slot that no read pins and that is not being written is free; the rest follow
  // when their I/O ends (the caller waits for that before it calls this).
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
  // Slots that can hold a page, now or later.
  std::uint32_t usable_count() const { return slot_count() - quarantined_count_; }

 private:
  struct Slot {
    SlotState state = SlotState::free;
    bool leaves_limbo = false;  // its commit is done; a pin holds it back
    std::uint16_t pins = 0;
    Generation generation = kNoGeneration;
  };
  void move(SlotId slot, SlotState to);
  void release(SlotId slot);

  FileId file_;
  SlabHeader header_;
  SlotPool pool_;
  std::vector<Slot> slots_;
  std::uint32_t live_count_ = 0;
  std::uint32_t limbo_count_ = 0;
  std::uint32_t quarantined_count_ = 0;
  std::uint32_t unscanned_count_ = 0;
};

}  // namespace hc
