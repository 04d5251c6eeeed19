// SPDX-License-Identifier: Apache-2.0
// doorbell: the system calls behind the two doorbells.
#include "shm/doorbell.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace hc {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kTimeoutNsMax = 3600 * kSecondNs * 24;

// An absolute end, so that a wait broken by signals does not grow.
timespec monotonic_after(std::int64_t timeout_ns) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ns = now.tv_nsec + std::clamp<std::int64_t>(timeout_ns, 0, kTimeoutNsMax);
  now.tv_sec += ns / kSecondNs;
  now.tv_nsec = ns % kSecondNs;
  return now;
}

}  // namespace

Result<UniqueFd> make_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) {
    return make_error(Code::io_error, "create a doorbell", errno);
  }
  return fd;
}

Code ring_doorbell(int doorbell_fd) {
  const std::uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = ::write(doorbell_fd, &one, sizeof one);
  } while (written < 0 && errno == EINTR);
  return written == sizeof one || errno == EAGAIN ? Code::ok : Code::io_error;
}

Code ring_if_sleeping(int doorbell_fd, const std::uint32_t& daemon_sleeping) {
  full_fence();
  return load_relaxed(daemon_sleeping) == 0 ? Code::ok : ring_doorbell(doorbell_fd);
}

void wake_client(std::uint32_t& wake_word, const std::uint32_t& client_waiting) {
  store_release(wake_word, load_relaxed(wake_word) + 1);
  full_fence();
  if (load_relaxed(client_waiting) != 0) {
    wake_all(wake_word);
  }
}

// FUTEX_WAKE without the private flag: the sleeper is another process.
void wake_all(std::uint32_t& word) {
  static_cast<void>(::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0));
}

std::uint32_t begin_wait(std::uint32_t& client_waiting, std::uint32_t wait_flags,
                         const std::uint32_t& wake_word) {
  store_relaxed(client_waiting, wait_flags);
  full_fence();
  return load_acquire(wake_word);
}

Code wait_on(const std::uint32_t& word, std::uint32_t seen, std::int64_t timeout_ns) {
  const timespec end = monotonic_after(timeout_ns);
  // The bitset form takes an absolute time; the plain one would start again after each signal.
  while (::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, &end, nullptr,
                   FUTEX_BITSET_MATCH_ANY) != 0) {
    switch (errno) {
      case EINTR:
        continue;
      case EAGAIN:
        return Code::ok;
      case ETIMEDOUT:
        return Code::timed_out;
      default:
        return Code::io_error;
    }
  }
  return Code::ok;
}

}  // namespace hc
