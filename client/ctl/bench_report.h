// SPDX-License-Identifier: Apache-2.0
// bench_report: everything that a bench measured, as JSON and as a table for people.
//
// Owner thread: any; plain data. Invariants: every number was measured in this run, or says what
// the run was asked for.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "client/ctl/bench_plan.h"
#include "client/ctl/rank_board.h"
#include "client/ctl/render.h"
#include "client/ctl/replay.h"

namespace hc {

struct BenchReport {
  BenchPlan plan;
  std::string source;                  // the trace's path, or the generator's options
  std::uint64_t distinct_blocks = 0;
  std::uint64_t commit_interval_ms = 0;
  bool private_daemon = true;
  std::string disk_backend;            // as the daemon says
  ReplayCounts counts;
  RankTotals totals;                   // of all ranks
  double load_bytes_per_s = 0;         // sum over ranks of bytes by time spent in loads
  double store_bytes_per_s = 0;        // likewise, until resident
};

// Adds a rank's totals to the report.
void add_rank(BenchReport& report, const RankTotals& rank);

double ratio_of(std::uint64_t part, std::uint64_t whole);
// Where the first wrong byte was found, in words and as JSON.
std::string first_wrong_text(const WrongPlace& place);
nlohmann::json first_wrong_json(const WrongPlace& place);
double hit_ratio(const BenchReport& report);
double model_hit_ratio(const BenchReport& report);
// 0; 1 when a byte was wrong or an acknowledged page was lost.
int exit_status(const BenchReport& report);

// What the run was asked for, whatever kind of replay it is.
nlohmann::json setup_json(const BenchReport& report);
Pairs setup_pairs(const BenchReport& report);

nlohmann::json report_json(const BenchReport& report);
std::string report_text(const BenchReport& report);
// For the demo: what happened, in words.
std::string demo_text(const BenchReport& report);

}  // namespace hc
