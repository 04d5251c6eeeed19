// SPDX-License-Identifier: Apache-2.0
// reactor: the one loop that owns all state: time is read once a turn, work is done, completions
// are published, then it sleeps until something happens.
//
// Owner: the main thread of the daemon.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/admin/admin_server.h"
#include "daemon/engine/engine.h"
#include "daemon/os/clock.h"
#include "daemon/os/epoll.h"
#include "daemon/os/notify.h"
#include "daemon/os/waitable.h"
#include "daemon/session/session_server.h"
#include "proto/thread_roles.h"

namespace hc {

struct ReactorParts {
  Epoll& epoll;
  Clock& clock;
  Engine& engine;
  SessionServer& sessions;
  AdminServer& admin;
  Notifier& notifier;
  std::vector<const Waitable*> waitables;  // completions of the engine's seams
  int signal_fd = -1;                      // SIGTERM, SIGINT
  std::uint32_t spin_us = 0;               // after work, before a sleep; 0: automatic
};

class Reactor {
 public:
  explicit Reactor(const ReactorParts& parts);

  // Runs until a stop signal; then refuses new work, drains what is in flight and commits.
  Result<void> run() HC_REACTOR;
  bool stopping() const HC_REACTOR { return stopping_; }

 private:
  bool turn() HC_REACTOR;
  void sleep() HC_REACTOR;
  void handle(std::uint64_t tag) HC_REACTOR;
  void announce() HC_REACTOR;
  Result<void> drain() HC_REACTOR;

  ReactorParts parts_;
  Instant now_{};
  Instant last_work_{};
  std::int64_t spin_ns_;
  std::int64_t next_watchdog_ns_ = 0;
  std::int64_t watchdog_ns_ = 0;
  std::int64_t next_patience_ns_ = 0;
  bool announced_ = false;
  bool stopping_ = false;
};

}  // namespace hc
