// SPDX-License-Identifier: Apache-2.0
// bench_run: builds the parts of a bench in the order in which they need each other.
#include "client/ctl/bench_run.h"

#include "client/ctl/bench_stage.h"
#include "client/ctl/rank_process.h"

namespace hc {

namespace {

Result<ReplayCounts> replay(const RankSetup& setup, PrivateDaemon* daemon,
                            const Interrupt& interrupt, Progress& progress) {
  auto group = RankGroup::start(setup, serve_rank);
  HC_TRY(group);
  group->watch_interrupt(interrupt.fd());
  if (daemon != nullptr) {
    HC_TRY_VOID(daemon->start());
    group->watch_daemon(daemon->pidfd());
  }
  RankCommand open;
  open.verb = RankVerb::open;
  auto opened = group->ask(open);
  HC_TRY(opened);
  Replay run(setup, *group, daemon, progress);
  auto counts = run.run();
  HC_TRY(counts);
  HC_TRY_VOID(group->close());
  return counts;
}

BenchReport begin_report(const BenchOptions& options, const BenchPlan& plan, const Trace& trace) {
  BenchReport report;
  report.plan = plan;
  report.source = options.trace_path.empty() ? "synthetic " + options.synthetic
                                             : options.trace_path;
  report.distinct_blocks = trace.block_count();
  report.commit_interval_ms = options.commit_interval_ms;
  report.private_daemon = options.client_socket.empty();
  return report;
}

}  // namespace

Result<BenchReport> run_bench(const BenchOptions& options, Progress& progress) {
  auto plan = make_plan(options);
  HC_TRY(plan);
  auto trace = make_trace(options);
  HC_TRY(trace);
  HC_TRY_VOID(check_restarts(*plan, *trace));
  auto made = BenchStage::make(options, *plan, *trace);
  HC_TRY(made);
  BenchStage& stage = **made;
  const RankSetup setup{*plan,        *trace,       stage.keys, stage.boards,
                        stage.socket, stage.run_name};
  auto counts = replay(setup, stage.daemon.get(), stage.interrupt, progress);
  progress.clear();
  if (!counts) {
    return explain_error(counts.error(), stage.daemon.get());
  }
  BenchReport report = begin_report(options, *plan, *trace);
  report.counts = *counts;
  for (std::uint32_t rank = 0; rank < plan->ranks; ++rank) {
    add_rank(report, stage.boards.totals(rank));
  }
  if (stage.daemon) {
    report.disk_backend = ask_disk_backend(*stage.daemon);
    HC_TRY_VOID(stage.daemon->stop());
  }
  return report;
}

}  // namespace hc
