// SPDX-License-Identifier: Apache-2.0
// read_command: what all commands share: errors to exit statuses, answers to standard output.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "client/ctl/admin_client.h"
#include "client/ctl/commands.h"
#include "client/ctl/render.h"

namespace hc {

int report_error(const Error& error) {
  std::fprintf(stderr, "cachectl: %s\n", printable(error.message()).c_str());
  switch (error.code) {
    case Code::disconnected: return kExitUnreachable;
    case Code::bad_argument: return kExitUsage;
    case Code::cancelled: return kExitInterrupted;
    default: return kExitNo;
  }
}

int print_result(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0) {
    std::fprintf(stderr, "cachectl: standard output: %s\n", std::strerror(errno));
    return kExitNo;
  }
  return kExitOk;
}

int print_answer(const CommandContext& context, const Result<nlohmann::json>& answer,
                 RenderFunction render) {
  if (!answer) {
    // A bad argument here would be the daemon's judgement of our own message.
    const int status = report_error(answer.error());
    return status == kExitUsage ? kExitNo : status;
  }
  return print_result(context.json ? answer->dump(2) + "\n" : render(*answer));
}

int run_read_command(const CommandContext& context, const std::string& verb,
                     RenderFunction render) {
  return print_answer(
      context, ask_daemon(context.socket, verb, nlohmann::json::object(), context.timeout_ms),
      render);
}

}  // namespace hc
