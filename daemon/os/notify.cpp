// SPDX-License-Identifier: Apache-2.0
// notify: the sd_notify protocol, which is one datagram of lines KEY=VALUE.
#include "daemon/os/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "daemon/log/log.h"

namespace hc {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody writes it
  return value == nullptr ? std::string() : std::string(value);
}

// A line break would start a second key.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

Notifier::Notifier(std::string socket) : socket_(std::move(socket)) {
  if (!socket_.empty()) {
    fd_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }
}

Notifier Notifier::from_environment() { return Notifier(environment("NOTIFY_SOCKET")); }

std::uint64_t Notifier::watchdog_interval_us() {
  const std::string pid = environment("WATCHDOG_PID");
  if (!pid.empty() && pid != std::to_string(::getpid())) {
    return 0;
  }
  return std::strtoull(environment("WATCHDOG_USEC").c_str(), nullptr, 10);
}

void Notifier::ready(std::string_view status) { send("READY=1\nSTATUS=" + one_line(status)); }

void Notifier::status(std::string_view text) { send("STATUS=" + one_line(text)); }

void Notifier::stopping() { send("STOPPING=1"); }

void Notifier::watchdog() { send("WATCHDOG=1"); }

void Notifier::extend_timeout(std::uint64_t usec) {
  send("EXTEND_TIMEOUT_USEC=" + std::to_string(usec));
}

void Notifier::send(const std::string& message) {
  if (!active()) {
    return;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  int error = EINVAL;
  if (socket_.size() < sizeof address.sun_path && (socket_[0] == '/' || socket_[0] == '@')) {
    std::memcpy(address.sun_path, socket_.data(), socket_.size());
    if (socket_[0] == '@') {
      address.sun_path[0] = '\0';
    }
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
    const ssize_t sent = ::sendto(fd_.get(), message.data(), message.size(),
                                  MSG_NOSIGNAL | MSG_DONTWAIT,
                                  reinterpret_cast<const sockaddr*>(&address), size);
    error = sent < 0 ? errno : 0;
  }
  if (error != 0 && !complained_) {
    complained_ = true;
    log_warn("notify.failed", {{"socket", socket_}, {"reason", std::strerror(error)}});
  }
}

}  // namespace hc
