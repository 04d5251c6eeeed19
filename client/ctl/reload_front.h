// SPDX-License-Identifier: Apache-2.0
// reload_front: the scheduler's front end, which lives in rank 0: what comes in with each tick.
//
// Owner thread: rank 0's only thread. Invariants: requests come in the order of the trace, each
// once; what it decides reaches all ranks over the bus, rank 0 too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/ctl/engine_bus.h"
#include "client/ctl/rank_engine.h"
#include "client/ctl/reload_board.h"
#include "client/ctl/reload_chaos.h"

namespace hc {

class ReloadFront {
 public:
  explicit ReloadFront(const RankSetup& setup);

  struct View {                           // of the engine, before the tick
    std::size_t waiting = 0;              // requests that are not served yet
    std::size_t unsettled = 0;            // stores
    std::span<const std::uint64_t> held;  // requests that wait for pages
  };
  TickInput next(const View& view);

 private:
  // The daemon that this request waits for is there, if it waits for one.
  bool has_daemon();
  bool is_due(std::uint64_t now_ns) const;

  const RankSetup& setup_;
  const ReloadShare& share_;
  ChaosDraws draws_;
  std::uint64_t begin_ns_;
  std::uint64_t next_ = 0;
  std::size_t restarts_ = 0;      // that requests have waited for
  bool has_asked_ = false;        // for the next of them
};

}  // namespace hc
