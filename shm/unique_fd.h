// SPDX-License-Identifier: Apache-2.0
// unique_fd: a file descriptor with one owner, closed when the owner goes.
//
// Owner thread: whoever holds it; it may move between threads, never be shared.
// Invariants: the number is -1 or a descriptor that nobody else closes.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "proto/result.h"

namespace hc {

class [[nodiscard]] UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset(other.release());
    }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }

  // Gives the descriptor away; the caller closes it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  // errno survives, so that a failing function can return early and still report its cause.
  // close() is not repeated on EINTR: Linux has freed the number by then.
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) {
      const int saved = errno;
      ::close(old);
      errno = saved;
    }
  }

  // Another descriptor of the same open file, closed on exec.
  Result<UniqueFd> duplicate() const {
    const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
      return make_error(Code::io_error, "duplicate a descriptor", errno);
    }
    return UniqueFd(copy);
  }

 private:
  int fd_ = -1;
};

}  // namespace hc
