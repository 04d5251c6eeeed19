// SPDX-License-Identifier: Apache-2.0
// notify: tells the service manager how the daemon is doing: one datagram per message.
//
// Owner: the reactor thread. Best effort: without a manager every call is a no-op, and a manager
// that does not listen costs one log line, never a wait.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shm/unique_fd.h"

namespace hc {

class Notifier {
 public:
  // `socket` as in $NOTIFY_SOCKET: a path, or '@' and an abstract name; empty: no manager.
  explicit Notifier(std::string socket);
  static Notifier from_environment();

  bool active() const { return !socket_.empty(); }
  // How often the manager wants a watchdog message, in microseconds; 0: never.
  static std::uint64_t watchdog_interval_us();

  void ready(std::string_view status);
  void status(std::string_view text);
  void stopping();
  void watchdog();
  // Start or stop takes longer than the manager's limit: asks for `usec` more from now on.
  void extend_timeout(std::uint64_t usec);

 private:
  void send(const std::string& message);

  std::string socket_;
  UniqueFd fd_;
  bool complained_ = false;
};

}  // namespace hc
