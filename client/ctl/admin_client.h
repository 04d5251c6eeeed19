// SPDX-License-Identifier: Apache-2.0
// admin_client: one question to the daemon's admin socket, and its answer, within a time limit.
//
// Owner thread: any, one at a time. Errors: disconnected when nobody listens or no answer came in
// time; every other code is the daemon saying no, with its line of text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "client/connection.h"
#include "proto/result.h"

namespace hc {

inline constexpr const char* kDefaultAdminSocket = "/run/hicached/admin.sock";

// $HICACHE_ADMIN_SOCKET, or the default.
std::string admin_socket_path();

class AdminClient {
 public:
  static Result<AdminClient> connect(const std::string& path);

  // Sends {"verb": verb, ...arguments} and waits for the answer.
  Result<nlohmann::json> call(const std::string& verb, nlohmann::json arguments,
                              std::uint64_t timeout_ms);
  // The same in two halves, so that another connection can ask for progress in between.
  Result<void> send(const std::string& verb, nlohmann::json arguments);
  Result<nlohmann::json> receive(std::uint64_t timeout_ms);
  // The last receive ended because time was up: the answer may still come.
  bool waiting() const { return waiting_; }
  // Says that no question follows and waits until the daemon has closed its end too. False if it
  // has not within `timeout_ms`.
  bool hang_up(std::uint64_t timeout_ms);

 private:
  AdminClient(std::string path, Connection connection)
      : path_(std::move(path)), connection_(std::move(connection)) {}

  std::string path_;
  Connection connection_;
  std::uint64_t request_id_ = 0;
  bool waiting_ = false;
};

// connect and call.
Result<nlohmann::json> ask_daemon(const std::string& path, const std::string& verb,
                                  nlohmann::json arguments, std::uint64_t timeout_ms);

}  // namespace hc
