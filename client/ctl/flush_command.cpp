// SPDX-License-Identifier: Apache-2.0
// flush_command: waits until everything stored so far is durable.
#include <nlohmann/json.hpp>

#include "client/ctl/admin_client.h"
#include "client/ctl/commands.h"

namespace hc {

namespace {
// The daemon gives up a little earlier than we do, so that its own line is the one that is seen.
constexpr std::uint64_t kAnswerMs = 1'000;
}  // namespace

int run_flush(const CommandContext& context) {
  const auto answer = ask_daemon(context.socket, "flush", {{"timeout_ms", context.timeout_ms}},
                                 context.timeout_ms + kAnswerMs);
  if (!answer) {
    return report_error(answer.error());
  }
  return print_result(context.json ? answer->dump(2) + "\n" : "flushed\n");
}

}  // namespace hc
