// SPDX-License-Identifier: Apache-2.0
// rank_side: ranks that copy themselves. What the engine tells them of is copied at drawn times by
// a virtual copier of their own; then they say so, or that it failed, or die without a word.
//
// What a dead rank had begun goes on for a while, as a GPU does. Held here: law 7, of the memory of
// the clients; that no frame is handed out meanwhile is seen by the bytes of whoever gets it (1).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "tests/sim/clients.h"

namespace hc::sim {

class RankSide {
 public:
  explicit RankSide(World& world) : world_(world) {}

  // The engine told a rank of these frames.
  void begin(SimSession& session, SimOp& op, std::span<const FrameRef> frames);
  // Copies go on; words are said. `sessions` in the order of their numbers.
  void turn(std::span<SimSession> sessions, std::map<std::uint32_t, SimOp>& ops);
  bool copies_for(std::uint32_t session) const;
  void daemon_died();

 private:
  struct Batch {
    std::uint32_t serial = 0;   // of the operation
    std::uint32_t session = 0;
    std::uint32_t left = 0;
    bool failed = false;
    std::deque<CopyJob> jobs;
    std::deque<std::vector<CopyRun>> runs;
  };

  World& world_;
  std::map<std::uint32_t, Batch> batches_;           // by number
  std::map<std::uint64_t, std::uint32_t> batch_of_;  // by ticket
  std::uint32_t next_batch_ = 1;
  std::uint64_t next_ticket_ = 1;
};

}  // namespace hc::sim
