// SPDX-License-Identifier: Apache-2.0
// process: starts a program with its output in files, and ends it with the test that started it.
//
// Owner thread: the test's main thread; a child dies with the thread that started it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shm/unique_fd.h"

namespace hc::test {

// Enough for every step of a test on a machine that does ten other things; it only ends hangs.
inline constexpr int kPatienceMs = 60'000;
// Of a program that was called wrongly (EX_USAGE of sysexits.h).
inline constexpr int kExitUsage = 64;

struct Command {
  std::vector<std::string> argv;         // argv[0] is a path
  std::vector<std::string> environment;  // "NAME=VALUE", in addition to ours
  std::string out_path;                  // appended to
  std::string err_path;
  int io_uring_errno = 0;                // io_uring_setup answers it: EPERM as under a container's
                                         // system call filter and where io_uring_disabled says so,
                                         // ENOSYS as an old kernel; 0: as it is
  std::uint64_t locked_bytes_max = 0;    // RLIMIT_MEMLOCK, without the right to pass it
  std::string small_disk{};              // this folder is a file system of its own, seen by the
  std::uint64_t small_disk_bytes = 0;    // program alone: needs can_mount()
};

// Whether this process may give a child a file system of its own.
bool can_mount();

class Process {
 public:
  static constexpr int kHung = 1000;  // it had to be killed

  explicit Process(const Command& command);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  bool running() const { return pid_ > 0; }
  void signal(int number) const;
  // The exit status, minus the signal that ended it, or kHung.
  int wait(int timeout_ms = kPatienceMs);
  // SIGKILL, and waits for the end.
  void kill_now();

 private:
  int reap();

  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

// Runs a program of this build to its end, a whole benchmark for one.
Outcome run_program(const std::string& name, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {});

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);
std::vector<std::string> lines_of(const std::string& text);
// The lines that are no log lines, which begin with a time.
std::vector<std::string> complaints(const std::string& err);

// Empty if every part is in `text`; else what is missing, and where.
std::string missing(const std::string& text, const std::vector<std::string>& parts);

// How often `word` is in `text`.
std::size_t occurrences(const std::string& text, const std::string& word);

// True as soon as `done` is; false when `limit_ms` have passed.
bool eventually(const std::function<bool()>& done, int limit_ms = kPatienceMs);
// True when `fd` turned readable within the time.
bool readable_within(int fd, int timeout_ms);

std::uint64_t monotonic_ms();
// How often the kill tests kill: $HC_E2E_KILLS, else `normally`.
std::uint32_t kill_count(std::uint32_t normally);

}  // namespace hc::test
