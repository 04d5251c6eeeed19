// SPDX-License-Identifier: Apache-2.0
// event_fd: create, raise and clear an eventfd.
#include "daemon/os/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace hc {

Result<EventFd> EventFd::create() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) {
    return make_error(Code::io_error, "eventfd", errno);
  }
  return EventFd(std::move(fd));
}

void EventFd::raise() const {
  const std::uint64_t one = 1;
  ssize_t count = 0;
  do {
    count = ::write(fd_.get(), &one, sizeof one);
  } while (count < 0 && errno == EINTR);
  // EAGAIN: the counter is full, so the flag is up already.
  HC_CHECK(count == sizeof one || errno == EAGAIN);
}

void EventFd::clear() const {
  std::uint64_t count = 0;
  ssize_t size = 0;
  do {
    size = ::read(fd_.get(), &count, sizeof count);
  } while (size < 0 && errno == EINTR);
  HC_CHECK(size == sizeof count || errno == EAGAIN);
}

}  // namespace hc
