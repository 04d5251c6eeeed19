// SPDX-License-Identifier: Apache-2.0
// copy_desk: hands copies to the copier, bounded and in order within each of its lanes, and knows
// whose each one is.
//
// Owner: the reactor thread.
// Invariants:
//   - a task's runs stay where they are until its completion
//   - an operation's `copies` counts its queued, parked and running tasks: while it is not zero,
//     the operation's client memory is not the client's
//   - nothing of an operation that waits for its client's own work is queued before that is done
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/gpu/copier.h"
#include "proto/handshake.h"

namespace hc {

struct Works;

class CopyDesk {
 public:
  explicit CopyDesk(Works& works);

  // The item's memory to its part's frame (filler), or back (copier).
  void copy(std::uint32_t item);
  void sum(PartRef ref);  // of the frame that a read filled
  void sum_filled(std::uint32_t item);  // of the frame that its rank filled
  // Takes the tasks of an operation that have not started out of the queues; each ends with
  // `cancelled` before this returns.
  void drop_queued(std::uint32_t op);

  void turn();  // collects completions, starts what is queued
  bool idle() const { return queued_ == 0 && running_ == 0; }

 private:
  enum class Step : std::uint8_t {
    move,        // the item's copy
    sum_filled,  // then, of a copier that does not: the sum of what it has filled
    sum_read,    // of a frame that a read filled; no item
    await,       // the operation's client is still at work on its memory; no item
  };
  struct Queued {
    Step step = Step::move;
    std::uint32_t item = kNone32;
    PartRef part{};
  };
  struct Task {
    Queued what;
    std::uint32_t op = kNone32;  // await
    std::uint32_t use = 0;       // of that operation's record
    std::vector<CopyRun> runs;
  };
  void park(std::uint32_t item);
  void enqueue(const Queued& queued);
  CopyJob job_of(const Queued& queued) const;
  std::uint32_t take_task();
  bool start(const Queued& queued);
  void fill_runs(Task& task);
  void finish(const CopyCompletion& completion);
  void finish_await(const Task& task, Code code);

  Works& works_;
  std::vector<std::deque<Queued>> queues_;  // by lane
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> free_tasks_;
  std::vector<CopyCompletion> completions_;
  std::size_t queued_ = 0;
  std::uint32_t running_ = 0;
  bool in_turn_ = false;          // a finished copy may ask for the next turn while this one runs
};

}  // namespace hc
