// SPDX-License-Identifier: Apache-2.0
// admin_client: JSON in an admin message.
#include "client/ctl/admin_client.h"

#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

namespace hc {

using nlohmann::json;

std::string admin_socket_path() {
  const char* const given = std::getenv("HICACHE_ADMIN_SOCKET");
  return given != nullptr && *given != '\0' ? given : kDefaultAdminSocket;
}

Result<AdminClient> AdminClient::connect(const std::string& path) {
  auto connection = Connection::connect(path);
  if (!connection) {
    // Whatever stands in the way (no file, nobody listens, no right), the daemon is out of reach.
    const Error& why = connection.error();
    return make_error(Code::disconnected,
                      path + ": the daemon can't be reached: " +
                          (why.sys_errno != 0 ? std::strerror(why.sys_errno) : why.text) +
                          "; does hicached run? Its admin.sock is in daemon.runtime_dir, --socket "
                          "names another");
  }
  return AdminClient(path, std::move(*connection));
}

Result<json> AdminClient::call(const std::string& verb, json arguments, std::uint64_t timeout_ms) {
  HC_TRY_VOID(send(verb, std::move(arguments)));
  return receive(timeout_ms);
}

Result<void> AdminClient::send(const std::string& verb, json arguments) {
  json question = arguments.is_object() ? std::move(arguments) : json::object();
  question["verb"] = verb;
  const std::string text = question.dump();
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto sent = connection_.send(MessageType::admin, ++request_id_,
                                     std::span(bytes, text.size()), {});
  if (!sent) {
    return make_error(Code::disconnected, path_ + ": the daemon went away: " +
                                              sent.error().message());
  }
  return {};
}

Result<json> AdminClient::receive(std::uint64_t timeout_ms) {
  const Deadline deadline = deadline_after_ms(timeout_ms);
  for (;;) {
    auto message = connection_.receive(deadline, -1);
    waiting_ = !message && message.error().code == Code::timed_out;
    if (waiting_) {
      return make_error(Code::disconnected, path_ + ": the daemon gave no answer within " +
                                                std::to_string(timeout_ms) + " ms");
    }
    if (!message) {
      return make_error(Code::disconnected,
                        path_ + ": the daemon went away: " + message.error().message());
    }
    if (message->header.request_id != request_id_) {
      continue;
    }
    if (message->status() != Code::ok) {
      return make_error(message->status(), message->text());
    }
    const json answer = json::parse(message->body.begin(), message->body.end(), nullptr, false);
    if (!message->is(MessageType::admin_reply) || !answer.is_object()) {
      return make_error(Code::protocol, path_ + ": the answer is no JSON object");
    }
    return answer;
  }
}

bool AdminClient::hang_up(std::uint64_t timeout_ms) {
  const Deadline deadline = deadline_after_ms(timeout_ms);
  ::shutdown(connection_.fd(), SHUT_WR);
  for (;;) {
    const auto message = connection_.receive(deadline, -1);
    if (!message) {
      return message.error().code == Code::disconnected;
    }
  }
}

Result<json> ask_daemon(const std::string& path, const std::string& verb, json arguments,
                        std::uint64_t timeout_ms) {
  auto client = AdminClient::connect(path);
  HC_TRY(client);
  return client->call(verb, std::move(arguments), timeout_ms);
}

}  // namespace hc
