// SPDX-License-Identifier: Apache-2.0
// bench_command: `bench replay`, and the demo that is one bench with chosen options.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/ctl/bench_report.h"
#include "client/ctl/bench_run.h"
#include "client/ctl/commands.h"
#include "client/ctl/reload_run.h"

namespace hc {

namespace {

// A bench that was cut short has no result: one line, and a status that is never 0.
int report_failure(const Error& error, Progress& progress) {
  progress.clear();
  return report_error(error);
}

int run_with_reloads(const CommandContext& context, const BenchOptions& options,
                     Progress& progress) {
  const auto report = run_reload_bench(options, progress);
  if (!report) {
    return report_failure(report.error(), progress);
  }
  const int printed = print_result(context.json ? report_json(*report).dump(2) + "\n"
                                                : report_text(*report));
  return printed != kExitOk ? printed : exit_status(*report);
}

}  // namespace

int run_bench_replay(const CommandContext& context, const BenchOptions& options) {
  Progress progress(stderr);
  if (options.reload.enabled) {
    return run_with_reloads(context, options, progress);
  }
  const auto report = run_bench(options, progress);
  if (!report) {
    return report_failure(report.error(), progress);
  }
  const int printed = print_result(context.json ? report_json(*report).dump(2) + "\n"
                                                : report_text(*report));
  return printed != kExitOk ? printed : exit_status(*report);
}

// The system prompt and the first turns of a conversation are old by the time its last turns come,
// so with a small L2 they come from disk; the kill falls in the middle of all conversations.
int run_demo(const CommandContext& context, const BenchOptions& given) {
  BenchOptions options = given;
  options.synthetic = "users=40,turns=8,tokens=1536,answer=512,system=8192,active=12,seed=7";
  options.kinds = "kv=262144,indexer=20480:replicated";
  options.l2 = "150blocks";
  options.l3 = "1200blocks";
  options.ranks = 2;
  options.restart_at = {200};
  if (!context.json) {
    print_result(
        "Two engine processes without a GPU serve 320 requests of 40 conversations. Their\n"
        "pages go to a private daemon with memory for 150 pages and disk for 1,200. Before\n"
        "request 201 the daemon is killed with SIGKILL and started again. Every byte that\n"
        "comes back is compared with what was stored.\n\n");
  }
  Progress progress(stderr);
  const auto report = run_bench(options, progress);
  if (!report) {
    return report_failure(report.error(), progress);
  }
  const int printed = print_result(context.json ? report_json(*report).dump(2) + "\n"
                                                : demo_text(*report));
  return printed != kExitOk ? printed : exit_status(*report);
}

}  // namespace hc
