// SPDX-License-Identifier: Apache-2.0
// bench_run: one bench from options to report: folder, ranks, daemon, replay, and the end of all of
// them.
#pragma once

#include "client/ctl/bench_plan.h"
#include "client/ctl/bench_report.h"
#include "client/ctl/progress.h"
#include "proto/result.h"

namespace hc {

// Errors: bad_argument (the options), cancelled (SIGINT, SIGTERM), else what went wrong. Whatever
// happens, ranks and private daemon have ended and the folder is gone when it returns.
Result<BenchReport> run_bench(const BenchOptions& options, Progress& progress);

}  // namespace hc
