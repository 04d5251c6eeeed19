// SPDX-License-Identifier: Apache-2.0
// gated_listener: a listener in the epoll set that leaves it for a while after a failed accept.
//
// Out of descriptors a connection stays in the queue, and a level-triggered listener would report
// it again at once, for ever.
//
// Owner: the reactor thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "daemon/log/log.h"
#include "daemon/os/clock.h"
#include "daemon/os/epoll.h"
#include "daemon/os/unix_socket.h"
#include "proto/check.h"

namespace hc {

class GatedListener {
 public:
  static constexpr std::int64_t kPauseMs = 100;

  // `event` is the log event of a failed accept.
  GatedListener(Epoll& epoll, UnixListener listener, std::uint64_t tag, std::string event)
      : epoll_(epoll), listener_(std::move(listener)), tag_(tag), event_(std::move(event)) {}
  GatedListener(const GatedListener&) = delete;
  GatedListener& operator=(const GatedListener&) = delete;
  ~GatedListener() { unwatch(); }

  void watch() {
    const auto added = epoll_.add(listener_.fd(), Trigger::level, tag_);
    HC_CHECK(added.has_value());
    watched_ = true;
  }
  // The next connection, if there is one.
  std::optional<UniqueFd> accept(Instant now) {
    auto socket = listener_.accept();
    if (socket) {
      return std::move(*socket);
    }
    log_warn(event_.c_str(), {{"reason", socket.error().message()}});
    pause(now);
    return std::nullopt;
  }
  void pause(Instant now) {
    unwatch();
    paused_until_ = now + kPauseMs * kNsPerMs;
  }
  void turn(Instant now) {
    if (paused_until_ && *paused_until_ <= now) {
      paused_until_.reset();
      watch();
    }
  }
  bool paused() const { return paused_until_.has_value(); }
  // Nobody connects any more. What is left to be closed.
  UniqueFd end() {
    unwatch();
    paused_until_.reset();
    return listener_.end();
  }

 private:
  void unwatch() {
    if (watched_) {
      epoll_.remove(listener_.fd());
      watched_ = false;
    }
  }

  Epoll& epoll_;
  UnixListener listener_;
  std::uint64_t tag_;
  std::string event_;
  bool watched_ = false;
  std::optional<Instant> paused_until_;
};

}  // namespace hc
