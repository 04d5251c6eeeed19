// SPDX-License-Identifier: Apache-2.0
// reload_run: one bench with reloads from options to report.
#pragma once

#include "client/ctl/bench_plan.h"
#include "client/ctl/progress.h"
#include "client/ctl/reload_report.h"
#include "proto/result.h"

namespace hc {

// Errors: bad_argument (the options, or a trace whose ids are not those of prefixes), cancelled
// (SIGINT, SIGTERM), else what went wrong. Whatever happens, ranks and daemon have ended and the
// folder is gone when it returns.
Result<ReloadReport> run_reload_bench(const BenchOptions& options, Progress& progress);

}  // namespace hc
