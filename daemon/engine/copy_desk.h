// SPDX-License-Identifier: Apache-2.0
// copy_desk: hands copies to the copier in order, bounded, and knows whose each one is.
//
// Owner: the reactor thread.
// Invariants:
//   - a task's runs stay where they are until its completion
//   - an operation's `copies` counts its queued and running tasks: while it is not zero, the
//     operation's client memory is not the client's
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
  // Takes the tasks of an operation that have not started out of the queue; each ends with
  // `cancelled` before this returns.
  void drop_queued(std::uint32_t op);

  void turn();  // collects completions, starts what is queued
  bool idle() const { return queue_.empty() && running_ == 0; }

 private:
  struct Task {
    std::uint32_t item = kNone32;
    PartRef part{};
    bool is_sum = false;
    std::vector<CopyRun> runs;
  };
  struct Queued {
    std::uint32_t item;
    PartRef part;
  };
  bool start(const Queued& queued);
  void fill_runs(Task& task, const Queued& queued);
  void finish(const CopyCompletion& completion);

  Works& works_;
  std::deque<Queued> queue_;      // item kNone32: a sum
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> free_tasks_;
  std::vector<CopyCompletion> completions_;
  std::uint32_t running_ = 0;
  bool in_turn_ = false;          // a finished copy may ask for the next turn while this one runs
};

}  // namespace hc
