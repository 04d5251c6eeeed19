// SPDX-License-Identifier: Apache-2.0
// daemon_process: a real hicached in a folder of its own, which is gone with the test.
//
// Owner thread: the test's main thread. Invariants: at most one process runs; start returns when
// the daemon has said READY=1 to the socket that stands in for a service manager.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "e2e/process.h"
#include "shm/unique_fd.h"
#include "support/temp_dir.h"

namespace hc::test {

struct DaemonOptions {
  std::uint64_t l2_bytes = 8U << 20;
  std::uint64_t l3_bytes = 64U << 20;
  std::string cold_start = "load";
  std::string load_verify = "before";
  std::string disk_backend = "automatic";
  std::string spill_policy = "write_through";
  std::uint32_t commit_interval_ms = 20;
  std::uint32_t lock_wait_ms = 20'000;
  std::uint32_t sessions_max = 16;
  int io_uring_errno = 0;                // as in Command, and so is the next
  std::uint64_t locked_bytes_max = 0;
  std::uint32_t io_timeout_ms = 30'000;
  std::uint64_t small_index_bytes = 0;   // the index has a file system of its own, of that size
  bool huge_pages = false;
  std::uint32_t reserve_slots = 0;       // 0: the daemon's own choice
  std::string program = "hicached";
  std::vector<std::string> environment;  // "NAME=VALUE"
  std::uint64_t family_bytes = 0;
  std::vector<std::uint64_t> volume_bytes{};  // of several volumes, instead of l3_bytes
  std::string missing_volume = "refuse";
  std::string gpu_transfer{};  // "": the daemon's own choice
};

class DaemonProcess {
 public:
  explicit DaemonProcess(DaemonOptions options = {});
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // May be changed between two starts.
  DaemonOptions& options() { return options_; }

  // Fails the test if the daemon does not get ready.
  void start();
  void start(const std::string& cold_start);
  // The same in two steps, for several at once.
  void begin_start() { spawn(); }
  void await_start();
  // Starts while the stand-in for the manager does not listen: whether it finds READY=1 afterwards.
  bool start_unheard();
  // False: it was killed before it was ready. Fails the test if it ended in another way.
  bool start_unless_killed();
  // Whether SIGKILL has ended it, of which the owner hears by this.
  bool was_killed();
  // Starts a daemon that is expected to refuse: its exit status.
  int start_refused();
  // SIGTERM: the exit status.
  int stop();
  void begin_stop() const { process_->signal(SIGTERM); }
  int await_stop() { return process_->wait(); }
  void kill_now();

  pid_t pid() const { return process_->pid(); }
  bool running() const { return process_ != nullptr && process_->running(); }
  std::string folder() const { return folder_.str(); }
  std::string volume() const { return folder_.file("volume"); }
  // As the daemon sees it.
  std::string index_dir() const { return folder_.file("index"); }
  std::string volume(std::size_t number) const {
    return number == 0 ? volume() : volume() + std::to_string(number);
  }
  std::string config_path() const { return folder_.file("hicached.toml"); }
  std::string client_socket() const { return folder_.file("run/hicached.sock"); }
  std::string admin_socket() const { return folder_.file("run/admin.sock"); }
  // Standard error of the latest process.
  std::string log() const;
  std::string config_text() const;

  // Asks the admin socket; fails the test if the daemon says no.
  nlohmann::json ask(const std::string& verb,
                     const nlohmann::json& arguments = nlohmann::json::object()) const;
  // The same by cachectl: the exit status.
  Outcome cachectl(std::vector<std::string> arguments) const;

  // What the kernel says of the process.
  std::size_t open_descriptors() const;
  std::size_t mappings() const;
  std::size_t shared_mappings() const;  // of memory files

 private:
  void spawn();
  bool await_ready();
  std::string volumes_text() const;

  DaemonOptions options_;
  TempDir folder_;
  UniqueFd notify_;
  std::uint32_t starts_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace hc::test
