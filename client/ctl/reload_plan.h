// SPDX-License-Identifier: Apache-2.0
// reload_plan: what a bench with reloads does, once every option has been judged.
//
// Owner thread: any; plain data. Invariants: the longest request fits L1 and, with its loads, the
// rows of a rank's memory; at least one page fits the quota.
#pragma once

#include <cstdint>

#include "client/ctl/bench_plan.h"
#include "client/ctl/reload_chaos.h"
#include "client/hicache_group.h"

namespace hc {

struct ReloadPlan {
  std::uint32_t agreement = HICACHE_AGREE_AUTO;
  std::uint32_t l1_pages = 0;
  std::uint64_t quota_pages = 0;    // of each owner
  std::uint64_t quota_bytes = 0;
  std::uint32_t store_pages = 0;    // of one store; longer ones are cut
  std::uint64_t unsettled_pages_max = 0;  // of stores: half of the quota, of all owners together
  std::uint64_t concurrency = 0;    // closed loop; 0: requests come at their times
  double rate = 0;
  double time_scale = 0;
  std::uint32_t ttl_ms = 0;         // 0: the group's default
  std::uint32_t pages_min = 1;
  std::uint64_t seed = 1;
  ChaosPlan chaos;
};

// Also sets what the bench needs otherwise: more rows, and the restart that chaos wants.
Result<ReloadPlan> make_reload_plan(const BenchOptions& options, const Trace& trace,
                                    BenchPlan& bench);
const char* agreement_name(std::uint32_t agreement);

}  // namespace hc
