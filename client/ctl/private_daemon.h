// SPDX-License-Identifier: Apache-2.0
// private_daemon: a daemon of our own in a temporary folder: start, kill, start again, stop.
//
// Owner thread: the bench's only thread. Invariants: at most one daemon process runs; it ends when
// this object does, and when this process dies.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "client/ctl/interrupt.h"
#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

struct PrivateDaemonOptions {
  std::string binary;               // a path, or a name to look for in $PATH
  std::string folder;
  std::uint64_t l2_bytes = 0;
  std::uint64_t l3_bytes = 0;
  std::uint32_t reserve_slots = 0;
  std::string disk_backend;
  std::uint64_t commit_interval_ms = 0;
  std::string load_verify = "before";
  std::string spill_policy = "write_through";
  std::string more_daemon;          // further lines of the table [daemon]
};

// `given`, else the hicached beside this program, else "hicached" (which is looked for in $PATH).
std::string find_hicached(const std::string& given);
// The configuration file of a private daemon.
std::string private_config(const PrivateDaemonOptions& options);

class PrivateDaemon {
 public:
  PrivateDaemon(PrivateDaemonOptions options, const Interrupt& interrupt)
      : options_(std::move(options)), interrupt_(interrupt) {}
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  // Starts the process and waits until it serves.
  Result<void> start();
  // The same in two halves: who watches a load looks at the status in between.
  Result<void> launch();
  Result<void> await_serving();
  // SIGKILL, and waits for the end.
  void kill();
  // SIGTERM; SIGKILL if it has not ended after a while, which is an error.
  Result<void> stop();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  std::string client_socket() const { return options_.folder + "/hicached.sock"; }
  std::string admin_socket() const { return options_.folder + "/admin.sock"; }
  std::string last_log_line() const;

 private:
  Result<void> write_config() const;
  Result<void> spawn();
  bool ended_within(std::uint64_t timeout_ms) const;
  int reap();

  PrivateDaemonOptions options_;
  const Interrupt& interrupt_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

}  // namespace hc
