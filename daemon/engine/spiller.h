// SPDX-License-Identifier: Apache-2.0
// spiller: writes resident parts to slots, and makes room for them.
//
//   queued -> writing -> written            (group_commit takes it on to durable)
//      |         +-> failed                 (resident still; not on disk)
//      +-> failed (no slot can come free, or none can be made free because commits fail)
//   written -> queued                       (its flush failed, it is resident: written again)
//
// Owner: the reactor thread.
// Invariants:
//   - a slab's live slots stay below what its steps hold less the reserve, as long as a page can be
//     evicted; slots that are set aside come off the slots, not off the reserve
//   - a part is written to the volume that was chosen when it was queued
//   - an evicted slot goes to limbo with the erase of its row; it is free after that commit
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/engine/eviction.h"
#include "daemon/engine/family.h"
#include "daemon/engine/step_mover.h"
#include "daemon/store/io_queue.h"
#include "proto/limits.h"

namespace hc {

struct Works;

struct SlotRef {
  SlabId slab{};
  SlotId slot{};
};

class Spiller {
 public:
  explicit Spiller(Works& works) : works_(works) {}

  // A resident part without a stored copy.
  void enqueue(PartRef ref);
  void on_write(const IoEvent& event);
  void turn();

  // Evicts the page at the old end of the family's fullest slab; false when every page there is in
  // use.
  bool evict_oldest(const Family& family);
  // Evicts the page from both tiers: nobody holds it, nothing is in flight on it. `slab` is the one
  // that is full, or whose step gives way.
  void evict(PageId page, SlabId slab, EvictionCause cause);
  // The stored copy of one part is worthless: its slot goes (to limbo, or quarantined when the
  // device failed on it) and its row follows.
  void drop_stored(PartRef ref, bool quarantine);
  // Written, but its flush failed: its bytes are not believed. A resident part is written again, a
  // bounded number of times; otherwise it is lost.
  void write_again(PartRef ref, Code code);
  // A page was forgotten: its parts may stand in a queue behind one that waits.
  void note_doom() { doomed_ = true; }
  // How a flush of this slab ended. When it failed, a write in flight on it is not believed when it
  // ends: a piece of it may have been dropped. The first one speaks of what earlier runs wrote.
  void note_flush(SlabId slab, bool failed);
  // What earlier runs have written there may have been dropped by a flush that failed.
  bool is_legacy_lost(SlabId slab) { return lane(slab).legacy == Legacy::lost; }

  // While paused (a clear is running) nothing is written; parts of doomed pages leave the queue.
  void pause(bool paused) { paused_ = paused; }
  bool idle() const { return writing_ == 0; }
  std::uint32_t queued() const { return queued_; }

 private:
  enum class Legacy : std::uint8_t { unknown, flushed, lost };
  enum class Step : std::uint8_t { next, wait };
  struct Lane {
    std::deque<PartRef> queue;
    std::uint32_t flush_failures = 0;
    Legacy legacy = Legacy::unknown;
  };
  // Slots that live pages and the reserve may take: those that are there and those to come.
  struct Room {
    std::uint32_t live_max = 0;
    std::uint32_t reserve = 0;
  };
  Lane& lane(SlabId slab);
  Room room_of(SlabId slab) const;
  bool takes_parts(SlabId slab) const;
  SlabId choose_slab(PartRef ref);
  Step start_front(std::deque<PartRef>& queue);
  bool epoch_is_durable(PartRef ref) const;
  Step without_slot(PartRef ref, StepMover::Steal steal);
  bool is_unsettled(SlabId slab, std::uint32_t slot) const;
  StepMover::Steal make_room(SlabId slab_id, const Room& room);
  void write(PartRef ref, SlotId slot, Generation generation);
  void fail(PartRef ref, Code code);
  void finish(PartRef ref);
  void leave_lane(PartRef ref);
  void take_slot(PartRef ref, bool quarantine);
  void give_up(PartRef ref, Code code);
  void purge_doomed(std::deque<PartRef>& queue);
  void note_overdue(PartRef ref);
  void tell_overdue();

  Works& works_;
  std::deque<Lane> lanes_;                     // by slab; a lane stays where it is
  std::vector<PartRef> overdue_;               // writes that nobody waits for any more
  std::vector<std::uint64_t> pending_bytes_;   // queued and being written, by volume
  std::uint32_t writing_ = 0;
  std::uint32_t queued_ = 0;
  bool paused_ = false;
  bool doomed_ = false;
};

}  // namespace hc
