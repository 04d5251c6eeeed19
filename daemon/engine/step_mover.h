// SPDX-License-Identifier: Apache-2.0
// step_mover: gives preallocation steps to slabs that need room, and takes them from where they
// matter least.
//
//   grow:    absent -> charged -> allocated [-> header written -> flushed -> read back] -> open
//                         +-> failed: punched, released
//   reclaim: open -> closing -> its pages evicted, their erase committed, no reader left
//            -> punched -> flushed with a commit -> released -> absent
//
// A volume over its budget, and a slab above its share of a lowered one, give up steps unasked.
// The step whose newest access is oldest gives way, if even that access is older, by a margin, than
// the oldest page of the slab that needs room: otherwise that slab's own oldest page goes, and
// nothing moves. Slabs of one family never take from each other: their shares fit beside each
// other, and the page is evicted from all of them at once.
//
// Owner: the reactor thread.
// Invariants: per volume at most one step grows and at most one is reclaimed at a time; a slab of a
// family with sessions keeps one open step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/os/clock.h"
#include "daemon/store/aligned_buffer.h"
#include "daemon/store/io_queue.h"
#include "daemon/store/slab.h"

namespace hc {

struct Works;

class StepMover {
 public:
  explicit StepMover(Works& works) : works_(works) {}

  // Asks for another step, if the budget has room for one.
  void grow(SlabId slab);
  enum class Steal : std::uint8_t { none, later, coming };
  // Lets the oldest step of another family give way to this slab. `oldest` is the access of the
  // slab's oldest page: no step that is newer gives way for it; nothing: the slab has no room at
  // all. later: another slab's turn comes first.
  Steal steal(SlabId slab, std::optional<std::uint64_t> oldest);
  // Slots that the slab can still get without anybody giving way, those on their way included.
  std::uint32_t slots_to_come(SlabId slab) const;
  bool is_growing(SlabId slab) const;
  // Whatever the slab asked for would not come now: the device has not answered for a step in time,
  // or said no. Nothing is evicted for that.
  bool is_stalled(SlabId slab) const;
  // The disk had no room for a step a moment ago, whatever the budget says.
  bool is_disk_full(SlabId slab) const;

  void turn();
  void on_event(const IoEvent& event);
  bool idle() const;
  // While paused (a clear is running) nothing begins.
  void pause(bool paused) { paused_ = paused; }
  // Clear: no slot is in use any more; steps that were being emptied stay where they are.
  void reset();

 private:
  enum class GrowState : std::uint8_t {
    none, allocating, header, flushing, proving, undoing, undone
  };
  enum class ReclaimState : std::uint8_t { none, emptying, punching, punched };
  struct Grow {
    GrowState state = GrowState::none;
    SlabId slab{};
    std::uint32_t step = 0;
    std::uint64_t offset_bytes = 0;    // of the range, header included when it comes with it
    std::uint64_t charged_bytes = 0;
    bool overdue = false;
  };
  struct Reclaim {
    ReclaimState state = ReclaimState::none;
    SlabId slab{};
    std::uint32_t step = 0;
    std::optional<SlabId> wanted_by;   // nothing: the budget was lowered
    bool overdue = false;
    std::uint64_t group = 0;           // punched: the group with whose flushes it is durable
  };
  struct Volume {
    Grow grow;
    Reclaim reclaim;
    std::vector<SlabId> wants;         // in order, each once
    Instant grow_not_before{};         // after a failure
    bool refused = false;              // it was the device's
    Instant reclaim_not_before{};
    bool told_full = false;            // the log has heard that the disk is full
    std::unique_ptr<AlignedBuffer> header;
  };
  struct Victim {
    SlabId slab{};
    std::uint32_t step = 0;
    std::uint64_t newest = UINT64_MAX;
  };

  // How old the oldest step was that could give way for a slab, so that not every spill looks.
  struct Look {
    std::uint64_t oldest = 0;
    Instant until{};
  };

  enum Job : std::uint32_t { kGrow, kReclaim, kJobs };
  static constexpr std::int64_t kStepRetryMs = 1000;
  static std::uint64_t cookie_of(std::uint16_t volume, Job job);
  Volume& volume(std::uint16_t number);
  const Volume* find(std::uint16_t number) const;
  void start_grow(std::uint16_t number);
  void finish_grow(Volume& at, const IoEvent& event);
  void fail_grow(Volume& at, const IoEvent& event);
  void write_header(Volume& at);
  void open_grown(Volume& at);
  bool start_reclaim(std::uint16_t number, std::optional<SlabId> wanted_by, std::uint64_t before);
  Victim oldest_step(std::uint16_t number, std::optional<SlabId> wanted_by);
  std::uint64_t age_of(SlabId slab, std::uint32_t step) const;
  bool may_give(SlabId slab) const;
  static bool is_above_share(const Slab& slab);
  bool has_too_much(std::uint16_t volume) const;
  bool can_empty(const Victim& victim);
  bool empty(const Victim& victim);
  void turn_reclaim(Volume& at);
  void finish_punch(Volume& at, const IoEvent& event);
  void release(Volume& at);

  Works& works_;
  std::vector<Volume> volumes_;
  std::vector<Look> looks_;            // by slab
  bool paused_ = false;
};

}  // namespace hc
