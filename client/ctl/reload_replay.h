// SPDX-License-Identifier: Apache-2.0
// reload_replay: the bench's side of a replay with reloads: starts and ends the ranks, kills the
// daemon when asked, notices deaths, and asks at the end what was left behind.
//
// Owner thread: the bench's only thread. Invariant: the boards are read once every rank that lives
// has said that it is done.
#pragma once

#include <cstdint>
#include <vector>

#include "client/ctl/private_daemon.h"
#include "client/ctl/progress.h"
#include "client/ctl/rank_group.h"
#include "client/ctl/reload_board.h"
#include "proto/result.h"

namespace hc {

struct LeftBehind {
  std::uint64_t leases = 0;
  std::uint64_t leased_frames = 0;
};

struct ReloadOutcome {
  std::vector<std::uint32_t> living;  // ranks that came to the end
  std::uint64_t restarts = 0;
  std::uint64_t restart_ns = 0;       // of all of them, until the daemon served
  std::uint64_t elapsed_ns = 0;
  LeftBehind left;                    // once every rank has forgotten every page
};

class ReloadReplay {
 public:
  ReloadReplay(const RankSetup& setup, RankGroup& group, PrivateDaemon& daemon,
               const Interrupt& interrupt, Progress& progress)
      : setup_(setup),
        share_(*setup.reload),
        group_(group),
        daemon_(daemon),
        interrupt_(interrupt),
        progress_(progress) {}

  Result<ReloadOutcome> run();

 private:
  Result<void> await_ranks();
  Result<void> look_once(std::vector<bool>& is_done);
  Result<void> take_news(std::uint32_t rank, std::vector<bool>& is_done);
  Result<void> restart();
  Result<void> check_progress();
  Result<void> ask_left();
  void show_progress();

  const RankSetup& setup_;
  const ReloadShare& share_;
  RankGroup& group_;
  PrivateDaemon& daemon_;
  const Interrupt& interrupt_;
  Progress& progress_;
  ReloadOutcome outcome_;
  std::uint64_t seen_ticks_ = 0;
  std::uint64_t moved_ns_ = 0;
};

}  // namespace hc
