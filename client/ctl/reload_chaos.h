// SPDX-License-Identifier: Apache-2.0
// reload_chaos: what a bench with reloads does to its ranks on purpose, and the draws for it.
//
// Owner thread: each rank draws for itself; nothing is shared. What all ranks must do alike
// (aborts) is drawn by the engine's front end alone and told over the bus.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/ctl/split_mix.h"
#include "proto/result.h"

namespace hc {

struct RankKill {
  std::uint32_t rank = 0;
  std::uint64_t tick = 0;  // not before this one
};

struct ChaosPlan {
  bool skew = false;          // a rank is late for a tick
  bool aborts = false;        // requests leave while they wait for pages
  bool slow_acks = false;     // completions reach the group of a rank late
  bool failed_reads = false;  // a reload that went well is a failure on one rank
  bool restart = false;       // the daemon is killed and started again
  std::optional<RankKill> kill;

  bool any() const {
    return skew || aborts || slow_acks || failed_reads || restart || kill.has_value();
  }
  // As --chaos would say it; "none".
  std::string text() const;
};

// "skew,aborts,kill_rank=1@300" or "all" (everything but kill_rank); "" is nothing. A killed rank
// is one of `ranks`, and never rank 0, which the requests come in by.
Result<ChaosPlan> parse_chaos(const std::string& text, std::uint32_t ranks);

class ChaosDraws {
 public:
  ChaosDraws(const ChaosPlan& plan, std::uint64_t seed, std::uint32_t rank)
      : plan_(plan), random_(seed * 64 + rank + 1) {}

  std::uint64_t tick_delay_ns();               // 0: none
  std::uint64_t ack_delay_ns();
  bool fails_read();
  // Which of `count` waiting requests leaves now; none most of the time.
  std::optional<std::size_t> aborted(std::size_t count);

 private:
  const ChaosPlan plan_;
  SplitMix random_;
};

}  // namespace hc
