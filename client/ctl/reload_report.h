// SPDX-License-Identifier: Apache-2.0
// reload_report: everything that a bench with reloads measured, and what of it must not be.
//
// Owner thread: any; plain data. Invariants: every number was measured in this run, or says what
// the run was asked for.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "client/ctl/bench_report.h"
#include "client/ctl/reload_board.h"
#include "client/ctl/reload_model.h"
#include "client/ctl/reload_replay.h"

namespace hc {

struct ReloadReport {
  BenchReport bench;                   // setup, and bytes of all ranks that lived
  ReloadPlan plan;
  ReloadOutcome outcome;
  UniformTotals uniform;               // of the first rank that lived
  bool is_uniform = true;              // the other ranks counted the same
  ReloadTotals totals;                 // of all ranks that lived; `uniform` is not used
  ModelCounts model;
  std::uint64_t admit_ticks_max = 0;   // from the last answer of any rank to the tick that admitted
  std::uint64_t admits_timed = 0;
  std::uint64_t learned_ns_max = 0;    // of the ranks that lived
  std::uint64_t survivors_told = 0;
};

// Takes what the ranks left on their boards.
void gather(const RankSetup& setup, ReloadReport& report);

double reload_hit_ratio(const ReloadReport& report);
double reload_model_ratio(const ReloadReport& report);
// What must not be, one line each; empty when all is well.
std::vector<std::string> faults_of(const ReloadReport& report);
int exit_status(const ReloadReport& report);

nlohmann::json report_json(const ReloadReport& report);
std::string report_text(const ReloadReport& report);

}  // namespace hc
