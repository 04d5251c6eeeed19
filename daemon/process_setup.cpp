// SPDX-License-Identifier: Apache-2.0
// process_setup: signals, limits, randomness.
#include "daemon/process_setup.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

UniqueFd take_signals() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  sigaddset(&mask, SIGINT);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);  // before any thread, so that all inherit it
  UniqueFd signals(::signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC));
  HC_CHECK(static_cast<bool>(signals));
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of the process is EFBIG
  return signals;
}

// A session takes five descriptors; the soft limit of a shell is made for less.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
      log_warn("daemon.file_limit", {{"reason", std::strerror(errno)}});
    }
  }
}

std::uint64_t file_limit() {
  rlimit limit{};
  HC_CHECK(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  return limit.rlim_cur;
}

namespace {

template <typename T>
T random_value() {
  T value{};
  HC_CHECK(::getrandom(&value, sizeof value, 0) == static_cast<ssize_t>(sizeof value));
  return value;
}

}  // namespace

Uuid random_uuid() { return random_value<Uuid>(); }

std::uint64_t random_word() { return random_value<std::uint64_t>(); }

}  // namespace hc
