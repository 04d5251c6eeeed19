// SPDX-License-Identifier: Apache-2.0
// bench_run: builds the parts of a bench in the order in which they need each other.
#include "client/ctl/bench_run.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/ctl/admin_client.h"
#include "client/ctl/rank_process.h"
#include "client/ctl/render.h"
#include "client/ctl/temporary_folder.h"

namespace hc {

namespace {

constexpr std::uint64_t kAdminTimeoutMs = 10'000;

// The socket's own line names the code; a daemon that died has more to say in its log.
Error explained(const Error& error, const PrivateDaemon* daemon) {
  if (daemon == nullptr || error.code != Code::disconnected) {
    return error;
  }
  return make_error(error.code, error.message() + "; the daemon's last line: " +
                                    daemon->last_log_line());
}

Result<std::string> make_run_name() {
  std::array<std::uint8_t, 8> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return make_error(Code::io_error, "getrandom", errno);
  }
  return "bench-" + to_hex(random);
}

PrivateDaemonOptions daemon_options(const BenchOptions& options, const BenchPlan& plan,
                                    const std::string& folder) {
  PrivateDaemonOptions out;
  out.binary = find_hicached(options.hicached);
  out.folder = folder;
  out.l2_bytes = plan.l2_bytes;
  out.l3_bytes = plan.l3_bytes;
  out.reserve_slots = plan.reserve_slots;
  out.disk_backend = options.disk_backend;
  out.commit_interval_ms = options.commit_interval_ms;
  return out;
}

Result<TemporaryFolder> make_folder(const BenchOptions& options) {
  std::error_code error;
  std::string parent = options.directory;
  if (!parent.empty()) {
    parent = std::filesystem::absolute(parent, error).string();
  }
  auto folder = TemporaryFolder::make(parent);
  HC_TRY(folder);
  if (options.keep_folder) {
    folder->keep();
    std::fprintf(stderr, "cachectl: the folder %s is kept\n", folder->path().c_str());
  }
  return folder;
}

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

void ask_backend(const PrivateDaemon& daemon, BenchReport& report) {
  const auto status =
      ask_daemon(daemon.admin_socket(), "status", nlohmann::json::object(), kAdminTimeoutMs);
  if (status) {
    report.disk_backend = text_at(*status, "/disk_backend");
  }
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
  auto run_name = make_run_name();
  HC_TRY(run_name);
  auto boards = RankBoards::make(plan->ranks, trace->block_count());
  HC_TRY(boards);
  const std::vector<PageHash> keys = make_page_keys(*trace);
  auto interrupt = Interrupt::make();
  HC_TRY(interrupt);

  std::optional<TemporaryFolder> folder;
  std::unique_ptr<PrivateDaemon> daemon;
  std::string socket = options.client_socket;
  if (socket.empty()) {
    auto made = make_folder(options);
    HC_TRY(made);
    folder.emplace(std::move(*made));
    daemon = std::make_unique<PrivateDaemon>(daemon_options(options, *plan, folder->path()),
                                             *interrupt);
    socket = daemon->client_socket();
  }
  const RankSetup setup{*plan, *trace, keys, *boards, socket, *run_name};
  auto counts = replay(setup, daemon.get(), *interrupt, progress);
  progress.clear();
  if (!counts) {
    return explained(counts.error(), daemon.get());
  }
  BenchReport report = begin_report(options, *plan, *trace);
  report.counts = *counts;
  for (std::uint32_t rank = 0; rank < plan->ranks; ++rank) {
    add_rank(report, boards->totals(rank));
  }
  if (daemon) {
    ask_backend(*daemon, report);
    HC_TRY_VOID(daemon->stop());
  }
  return report;
}

}  // namespace hc
