// SPDX-License-Identifier: Apache-2.0
// daemon: builds the rooms in order, owns them, and takes them down in reverse.
//
// Owner: the main thread. Nothing here is reached through a global.
#pragma once

#include <memory>
#include <string>

#include "daemon/config/config.h"
#include "daemon/gpu/copier_set.h"
#include "daemon/index/lmdb_index.h"
#include "daemon/os/waitable_disk.h"
#include "daemon/os/system_clock.h"
#include "daemon/reactor.h"
#include "proto/thread_roles.h"

namespace hc {

class Daemon {
 public:
  explicit Daemon(Config config);
  ~Daemon();

  // Everything up to the loop. The error's code tells main which exit code to use.
  Result<void> start() HC_REACTOR;
  Result<void> run() HC_REACTOR;

 private:
  Result<void> open_sockets();
  Result<void> open_store();
  Result<void> begin();
  void still_alive();
  AdminFacts admin_facts();

  Config config_;
  SystemClock clock_;
  Notifier notifier_;
  UniqueFd signals_;
  Instant still_alive_at_{};  // last said so while something took long
  std::unique_ptr<Epoll> epoll_;
  std::unique_ptr<WaitableDisk> disk_;
  std::unique_ptr<LmdbIndex> index_;
  std::unique_ptr<CopierSet> copier_;
  std::unique_ptr<SessionServer> sessions_;
  std::unique_ptr<AdminServer> admin_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Reactor> reactor_;
  Uuid instance_{};
};

}  // namespace hc
