// SPDX-License-Identifier: Apache-2.0
// cold_start_command: tells a daemon that holds its cold start to load or to clear.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "client/ctl/admin_client.h"
#include "client/ctl/amount.h"
#include "client/ctl/commands.h"
#include "client/ctl/monotonic.h"
#include "client/ctl/progress.h"
#include "client/ctl/render.h"

namespace hc {

namespace {

using nlohmann::json;

constexpr std::uint64_t kPollMs = 200;
// A load of a large volume takes minutes; with --wait only a daemon that goes away ends it.
constexpr std::uint64_t kWaitMs = 24ULL * 3600 * 1000;

void show_progress(const json& status, Progress& progress, std::uint64_t& printed_ns) {
  const std::uint64_t scanned = number_at(status, "/load/slots_scanned");
  const std::uint64_t total = number_at(status, "/load/slots_total");
  const std::string note =
      format_count(scanned) + " of " + format_count(total) + " slots";
  if (progress.on_terminal()) {
    progress.step(scanned, total, note);
    return;
  }
  const std::uint64_t now_ns = monotonic_ns();
  if (printed_ns == 0 || now_ns - printed_ns >= kNsPerSecond) {
    std::fprintf(stderr, "cachectl: %s: %s\n", text_at(status, "/state").c_str(), note.c_str());
    printed_ns = now_ns;
  }
}

// The order's answer comes when the cold start is over; until then a second connection asks for
// progress.
Result<json> wait_for_end(AdminClient& order, const CommandContext& context) {
  Progress progress(stderr);
  std::uint64_t printed_ns = 0;
  const std::uint64_t begin_ns = monotonic_ns();
  while (monotonic_ns() - begin_ns < kWaitMs * kNsPerMs) {
    auto answer = order.receive(kPollMs);
    if (answer || !order.waiting()) {
      return answer;
    }
    const auto status =
        ask_daemon(context.socket, "status", json::object(), context.timeout_ms);
    if (!status) {
      return status.error();
    }
    show_progress(*status, progress, printed_ns);
  }
  return make_error(Code::disconnected, "the cold start has not ended within a day");
}

}  // namespace

int run_cold_start(const CommandContext& context, const ColdStartOptions& options) {
  auto order = AdminClient::connect(context.socket);
  if (!order) {
    return report_error(order.error());
  }
  const auto sent = order->send("cold-start", {{"mode", options.mode}});
  if (!sent) {
    return report_error(sent.error());
  }
  auto answer =
      options.wait ? wait_for_end(*order, context) : order->receive(context.timeout_ms);
  if (!answer && !options.wait && order->waiting()) {
    std::fprintf(stderr, "cachectl: cold start %s goes on; see: cachectl status\n",
                 options.mode.c_str());
    return kExitOk;
  }
  if (!answer) {
    return report_error(answer.error());
  }
  return print_result(context.json ? answer->dump(2) + "\n"
                                   : "cold start " + options.mode + " done\n");
}

}  // namespace hc
