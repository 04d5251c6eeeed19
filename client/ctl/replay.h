// SPDX-License-Identifier: Apache-2.0
// replay: serves a trace, one request at a time, as an engine with a KV cache would.
//
// For each request: every rank says how many leading pages it finds, the minimum is loaded and
// checked, then all pages of the request are stored from tail to head.
//
// Owner thread: the bench's only thread. Invariants: ranks are at rest whenever the ledger, the
// model or a board is looked at; the model never learns what the daemon answered, but for what
// a kill left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/ctl/durability_ledger.h"
#include "client/ctl/lru_model.h"
#include "client/ctl/private_daemon.h"
#include "client/ctl/progress.h"
#include "client/ctl/rank_group.h"
#include "proto/result.h"

namespace hc {

struct RestartCounts {
  std::uint64_t request = 0;
  std::uint64_t restart_ns = 0;          // from the kill until every rank is attached again
  std::uint64_t acknowledged_pages = 0;  // in the model's cache and acknowledged when it was killed
  std::uint64_t pages_present = 0;       // found on every rank right after the restart
  std::uint64_t lost_pages = 0;          // found lost by that look
};

struct ReplayCounts {
  std::uint64_t requests = 0;
  std::uint64_t referenced_blocks = 0;
  std::uint64_t promised_blocks = 0;     // minimum of exists_prefix over the ranks
  std::uint64_t hit_blocks = 0;          // of those, loaded on every rank
  std::uint64_t model_hit_blocks = 0;
  std::uint64_t hit_blocks_after_restart = 0;
  std::uint64_t referenced_after_restart = 0;
  std::uint64_t pages_present_at_end = 0;
  std::uint64_t lost_durable_pages = 0;
  std::uint64_t elapsed_ns = 0;          // all requests and restarts; not the looks at every page
  std::vector<RestartCounts> restarts;
};

// What the model holds after a kill, oldest first: what was acknowledged stays, and of the rest
// what was found. Which of the unacknowledged pages live on is the crash's choice, so the model
// takes it from the daemon. `present` is by block.
std::vector<std::uint32_t> blocks_after_kill(const LruModel& model, const DurabilityLedger& ledger,
                                             std::span<const std::uint8_t> present);

class Replay {
 public:
  // `daemon` is null for a daemon that is not ours.
  Replay(const RankSetup& setup, RankGroup& group, PrivateDaemon* daemon, Progress& progress);

  // Requests, restarts, and a last look once everything is durable.
  Result<ReplayCounts> run();

 private:
  Result<void> serve(std::uint64_t request);
  Result<std::uint64_t> least_pages(RankVerb verb, std::uint64_t request, std::uint64_t argument);
  Result<void> restart(std::uint64_t request);
  // Probes every page on every rank; the number that all of them find.
  Result<std::uint64_t> look(std::uint64_t& lost);
  void take_acks();

  const RankSetup& setup_;
  RankGroup& group_;
  PrivateDaemon* daemon_;
  Progress& progress_;
  LruModel model_;
  DurabilityLedger ledger_;
  std::vector<std::uint8_t> present_;  // by block, as the last look found it on every rank
  ReplayCounts counts_;
};

}  // namespace hc
