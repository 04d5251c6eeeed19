// SPDX-License-Identifier: Apache-2.0
// bench_stage: in the order in which the parts need each other.
#include "client/ctl/bench_stage.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "client/ctl/admin_client.h"
#include "client/ctl/rank_engine.h"
#include "client/ctl/render.h"

namespace hc {

namespace {

constexpr std::uint64_t kAdminTimeoutMs = 10'000;

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

}  // namespace

Error explain_error(const Error& error, const PrivateDaemon* daemon) {
  if (daemon == nullptr || error.code != Code::disconnected) {
    return error;
  }
  return make_error(error.code, error.message() + "; the daemon's last line: " +
                                    daemon->last_log_line());
}

std::string ask_disk_backend(const PrivateDaemon& daemon) {
  const auto status =
      ask_daemon(daemon.admin_socket(), "status", nlohmann::json::object(), kAdminTimeoutMs);
  return status ? text_at(*status, "/disk_backend") : std::string();
}

Result<std::unique_ptr<BenchStage>> BenchStage::make(const BenchOptions& options,
                                                     const BenchPlan& plan, const Trace& trace) {
  auto run_name = make_run_name();
  HC_TRY(run_name);
  auto boards = RankBoards::make(plan.ranks, trace.block_count());
  HC_TRY(boards);
  auto interrupt = Interrupt::make();
  HC_TRY(interrupt);
  std::unique_ptr<BenchStage> stage(
      new BenchStage{std::move(*run_name), std::move(*boards), make_page_keys(trace),
                     std::move(*interrupt), std::nullopt});
  stage->socket = options.client_socket;
  if (stage->socket.empty()) {
    auto made = make_folder(options);
    HC_TRY(made);
    stage->folder.emplace(std::move(*made));
    stage->daemon = std::make_unique<PrivateDaemon>(
        daemon_options(options, plan, stage->folder->path()), stage->interrupt);
    stage->socket = stage->daemon->client_socket();
  }
  return stage;
}

}  // namespace hc
