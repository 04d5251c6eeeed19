// SPDX-License-Identifier: Apache-2.0
// event_fd: a flag that another thread or the kernel raises and an epoll loop sees.
//
// Any thread may raise it; the owner clears it, always before it looks for what was announced.
#pragma once

#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

class EventFd {
 public:
  static Result<EventFd> create();

  int fd() const { return fd_.get(); }
  void raise() const;
  void clear() const;

 private:
  explicit EventFd(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace hc
