// SPDX-License-Identifier: Apache-2.0
// reload_run: plan, stage, ranks, daemon, replay, report.
#include "client/ctl/reload_run.h"

#include "client/ctl/bench_stage.h"
#include "client/ctl/engine_bus.h"
#include "client/ctl/reload_process.h"
#include "client/ctl/trace_prefix.h"
#include "shm/doorbell.h"

namespace hc {

namespace {

std::string source_of(const BenchOptions& options) {
  return options.trace_path.empty() ? "synthetic " + options.synthetic : options.trace_path;
}

Result<ReloadOutcome> replay_with_reloads(const RankSetup& setup, BenchStage& stage,
                                          Progress& progress) {
  auto group = RankGroup::start(setup, serve_reload_rank);
  HC_TRY(group);
  group->watch_interrupt(stage.interrupt.fd());
  HC_TRY_VOID(stage.daemon->start());
  group->watch_daemon(stage.daemon->pidfd());
  ReloadReplay replay(setup, *group, *stage.daemon, stage.interrupt, progress);
  return replay.run();
}

}  // namespace

Result<ReloadReport> run_reload_bench(const BenchOptions& options, Progress& progress) {
  ReloadReport report;
  auto plan = make_plan(options);
  HC_TRY(plan);
  auto trace = make_trace(options);
  HC_TRY(trace);
  HC_TRY_VOID(check_prefixes(source_of(options), *trace));
  auto reload = make_reload_plan(options, *trace, *plan);
  HC_TRY(reload);
  HC_TRY_VOID(check_restarts(*plan, *trace));
  auto bus = EngineBus::make(plan->ranks);
  HC_TRY(bus);
  auto boards = ReloadBoards::make(plan->ranks, *trace);
  HC_TRY(boards);
  auto notice = make_doorbell();
  HC_TRY(notice);
  auto stage = BenchStage::make(options, *plan, *trace);
  HC_TRY(stage);
  const ReloadShare share{*reload, *bus, *boards, notice->get()};
  const RankSetup setup{*plan,           *trace, (*stage)->keys, (*stage)->boards, (*stage)->socket,
                        (*stage)->run_name, &share};
  auto outcome = replay_with_reloads(setup, **stage, progress);
  progress.clear();
  if (!outcome) {
    return explain_error(outcome.error(), (*stage)->daemon.get());
  }
  report.bench.plan = *plan;
  report.bench.source = source_of(options);
  report.bench.distinct_blocks = trace->block_count();
  report.bench.commit_interval_ms = options.commit_interval_ms;
  report.plan = *reload;
  report.outcome = *outcome;
  report.bench.disk_backend = ask_disk_backend(*(*stage)->daemon);
  gather(setup, report);
  HC_TRY_VOID((*stage)->daemon->stop());
  return report;
}

}  // namespace hc
