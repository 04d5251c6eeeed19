// SPDX-License-Identifier: Apache-2.0
// group_commit: makes written parts durable in groups, off the data path.
//
//   idle -> noting (side_notes) -> flushing (sync of every slab the group touches)
//        -> committing (one index transaction) -> idle
//
// Owner: the reactor thread.
// Invariants:
//   - a group names only parts whose write had completed before its flush began
//   - a slot in limbo becomes free after the commit of the group that erases or replaces its row
//   - a group that fails is queued again whole; nothing of it counts as durable
//   - an index that dies is set aside with the next group, and every row is put again from memory;
//     until that is done, and while a rebuild runs, the index says that it is not complete
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/engine/side_notes.h"
#include "daemon/engine/spiller.h"
#include "daemon/index/index.h"
#include "daemon/os/clock.h"

namespace hc {

class GroupCommit {
 public:
  explicit GroupCommit(Works& works);

  void mark_dirty(PageId page);                 // its row is put with the next group
  void add_erase(SpaceNo space, const PageHash& hash, FreeToken token = {});
  void add_limbo(SlotRef slot);                 // free after the next group
  void add_flush(SlabId slab);                  // wiped headers must be flushed with the next group
  void request_soon();                          // do not wait for the interval
  // The group that takes what is added now. When it or a later one has succeeded, which takes what
  // it left if it failed, that is durable.
  std::uint64_t next_group() const { return groups_ + 1; }
  std::uint64_t last_success() const { return last_success_; }

  void turn();
  void on_sync(const IoEvent& event);
  void on_note(const IoEvent& event) { notes_.on_write(event); }

  // Start: the highest sequence that the index or a mark names.
  void set_sequence(std::uint64_t sequence) { sequence_ = sequence; }
  // Whether slots are still being read for rows that the index lacks; told with the next group.
  void set_rebuilding(bool rebuilding);

  // Also nothing is in flight that was not answered in time.
  bool idle() const {
    return state_ == State::idle && overdue_syncs_ == 0 && notes_.quiet();
  }
  bool has_work() const;
  // Work waits, and nothing but the time keeps turn() from starting a group.
  bool waits_for_time() const;
  Instant next_due() const;  // with work: when turn() would start a group
  std::uint64_t written_waiting() const { return written_waiting_; }
  void count_written(std::int64_t delta) {
    written_waiting_ += static_cast<std::uint64_t>(delta);  // wraps back: the sum is not negative
  }
  void pause(bool paused) { paused_ = paused; }
  // The superblock, which every group waits for, is not answered: who waits for a group is told.
  void tell_stalled();
  // Clear: forgets everything queued; idle and paused. `reset` is how the reset of the index ended.
  void reset(const Result<void>& index_reset);

  // Commits have failed several times in a row, or the superblock can't be written that they wait
  // for: nothing becomes durable and no slot becomes free now. They are tried on.
  bool is_failing() const;
  // The index takes no row, and setting it aside for a new one failed too. It is tried on.
  bool index_dead() const { return index_dead_; }
  Code failure_code() const { return failure_code_; }

 private:
  enum class State : std::uint8_t { idle, noting, flushing, committing };
  struct Erase {
    SpaceNo space{};
    PageHash hash;
    FreeToken token;
  };
  struct Group {
    IndexBatch rows;
    std::vector<Erase> erases;                  // also those that became a put
    std::vector<IndexErase> touched;            // every row put or erased, by its key
    struct Written {
      PartRef ref;
      Generation generation;
    };
    std::vector<Written> written;
    std::vector<SlotRef> limbo;
    std::vector<SlabId> flushes;
    std::vector<SlabId> wanted_flushes;         // of these: whatever becomes of the rows
  };

  bool due() const;
  bool held_up() const;
  void start();
  void start_syncs();
  void collect_spaces();
  void collect_erases();
  void collect_puts();
  void collect_again();
  void add_row(PageId page);
  void add_group_flush(SlabId slab);
  void turn_notes();
  void start_flush();
  void commit_rows();
  void succeed();
  void settle_written(const Group::Written& written);
  void fail(const Error& error);
  void requeue(const Group& group);
  void repair_index();
  static std::optional<SlabId> slab_of_sync(const IoEvent& event);  // nothing: that of the notes
  void fail_late(const IoEvent& event);
  void fail_unflushed(const std::vector<SlabId>& slabs, Code code);
  bool is_flushed(PartRef ref) const;
  void tell_waiters();

  Works& works_;
  SideNotes notes_;
  std::uint64_t groups_ = 0;                    // started
  std::uint64_t last_success_ = 0;
  std::uint64_t sequence_ = 0;                  // of the last group that flushed anything
  State state_ = State::idle;
  bool paused_ = false;
  bool soon_ = false;
  std::deque<PageId> dirty_;
  std::deque<Erase> erases_;
  std::vector<SlotRef> limbo_;
  std::vector<SlabId> flushes_;
  Group group_;
  std::uint64_t written_waiting_ = 0;           // parts written and not yet durable
  std::uint32_t syncs_left_ = 0;
  std::uint32_t overdue_syncs_ = 0;             // in flight, of groups that have failed
  Code late_code_ = Code::ok;                   // of an overdue sync that failed since its start
  bool unanswered_ = false;                     // something of the group, in time
  std::size_t syncs_started_ = 0;
  Code sync_code_ = Code::ok;
  std::vector<SlabId> failed_syncs_;
  Instant first_waiting_{};                     // when the oldest waiting row came
  Instant started_{};
  Instant not_before_{};                        // back-off after a failure
  std::uint32_t failures_ = 0;                  // in a row
  Code failure_code_ = Code::io_error;          // of the last one: io_error or no_space
  bool index_dead_ = false;
  bool rebuilding_ = false;
  bool state_dirty_ = false;                    // the index has to be told so
  bool fresh_ = false;                          // the next group begins a new index
  bool again_ = false;                          // rows are put again, from this page on:
  std::uint32_t again_next_ = 0;
};

}  // namespace hc
