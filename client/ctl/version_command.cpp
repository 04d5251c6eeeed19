// SPDX-License-Identifier: Apache-2.0
// version_command: versions of this program and of the daemon it talks to.
#include <nlohmann/json.hpp>

#include "client/ctl/admin_client.h"
#include "client/ctl/commands.h"
#include "client/ctl/render.h"
#include "client/hicache.h"

namespace hc {

using nlohmann::json;

std::string render_version(const json& answer) {
  Pairs pairs{{"cachectl", text_at(answer, "/cachectl")}};
  if (answer.contains("daemon")) {
    pairs.emplace_back("hicached", text_at(answer, "/daemon/version") + ", pid " +
                                       std::to_string(number_at(answer, "/daemon/pid")));
    pairs.emplace_back("protocol", std::to_string(number_at(answer, "/daemon/protocol")));
    pairs.emplace_back("disk format", std::to_string(number_at(answer, "/daemon/disk_version")));
  }
  return render_pairs("", pairs);
}

// The version of this program is there to be asked for without a daemon too, so it is printed
// before the daemon's absence is reported.
int run_version(const CommandContext& context) {
  json answer = {{"cachectl", hicache_version()}};
  const auto daemon = ask_daemon(context.socket, "version", json::object(), context.timeout_ms);
  if (daemon) {
    answer["daemon"] = *daemon;
  }
  const int printed =
      print_result(context.json ? answer.dump(2) + "\n" : render_version(answer));
  return daemon ? printed : report_error(daemon.error());
}

}  // namespace hc
