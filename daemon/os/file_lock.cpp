// SPDX-License-Identifier: Apache-2.0
// file_lock: flock with a bounded wait.
#include "daemon/os/file_lock.h"

#include <poll.h>
#include <sys/file.h>

#include <cerrno>
#include <csignal>

#include "daemon/log/log.h"
#include "daemon/os/system_clock.h"

namespace hc {

namespace {

constexpr int kLockPollMs = 20;  // flock has no wait with a limit and no descriptor to sleep on.

// The daemon blocks these signals and reads them only once its reactor runs, which is later.
bool stop_is_asked() {
  sigset_t pending;
  sigemptyset(&pending);
  return ::sigpending(&pending) == 0 &&
         (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

}  // namespace

Result<void> lock_exclusive(int fd, const std::string& name, std::uint32_t limit_ms) {
  SystemClock clock;
  const Instant end = clock.now() + std::int64_t{limit_ms} * kNsPerMs;
  bool announced = false;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) {
      continue;
    }
    if (errno != EWOULDBLOCK) {
      return make_error(Code::io_error, name + ": flock", errno);
    }
    if (stop_is_asked()) {
      return make_error(Code::cancelled, name + ": told to stop while waiting for its lock");
    }
    if (clock.now() >= end) {
      return make_error(Code::refused, name + " is locked by another daemon");
    }
    if (!announced) {
      announced = true;
      log_info("lock.wait", {{"file", name}, {"limit_ms", limit_ms}});
    }
    ::poll(nullptr, 0, kLockPollMs);
  }
  return {};
}

}  // namespace hc
