// SPDX-License-Identifier: Apache-2.0
// caller: a thread of a test that makes one call, and what the kernel says of a thread.
//
// Owner thread: the test's. A call that waits has no event of its own, but the kernel knows that
// its thread sleeps.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "proto/check.h"

namespace hc::test {

inline std::filesystem::path thread_folder(const std::string& tid) {
  return std::filesystem::path("/proc/self/task") / tid;
}

// The line of /proc/self/task/<tid>/status that starts with `field`, without it; empty if none.
inline std::string thread_status(const std::string& tid, const std::string& field) {
  std::ifstream file(thread_folder(tid) / "status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(field + ":", 0) == 0) {
      return line.substr(line.find_first_not_of(" \t", field.size() + 1));
    }
  }
  return {};
}

// The background thread of the one client that is open.
inline std::string background_thread() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread_status(entry.path().filename(), "Name") == "hicache") {
      return entry.path().filename();
    }
  }
  return {};
}

class Caller {
 public:
  explicit Caller(std::function<void()> call)
      : thread_([this, call = std::move(call)] {
          tid_ = static_cast<pid_t>(::syscall(SYS_gettid));
          call();
          done_ = true;
        }) {}
  ~Caller() { join(); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // Waits until the thread sleeps in its call, or has made it.
  void await_asleep() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done_ && (tid_ == 0 || thread_status(std::to_string(tid_), "State")[0] != 'S')) {
      HC_CHECK(std::chrono::steady_clock::now() < end);
      std::this_thread::yield();
    }
  }
  void join() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  std::atomic<pid_t> tid_ = 0;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace hc::test
