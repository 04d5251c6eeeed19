// SPDX-License-Identifier: Apache-2.0
// epoll: the set of descriptors that one loop sleeps on.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>

#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

enum class Trigger : std::uint8_t { level, edge };

class Epoll {
 public:
  static Result<Epoll> create() {
    UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
    if (!fd) {
      return make_error(Code::io_error, "epoll_create1", errno);
    }
    return Epoll(std::move(fd));
  }

  // `tag` comes back with each event. `events` is EPOLLIN, EPOLLOUT or both; hang-up and error
  // always count. Edge: one event per change, so the watcher must empty it or never read it.
  Result<void> add(int fd, Trigger trigger, std::uint64_t tag, std::uint32_t events = EPOLLIN) {
    epoll_event event{};
    event.events = events | (trigger == Trigger::edge ? static_cast<std::uint32_t>(EPOLLET) : 0U);
    event.data.u64 = tag;
    if (::epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return make_error(Code::io_error, "epoll_ctl add", errno);
    }
    return {};
  }

  // Must come before the descriptor is closed: a duplicate elsewhere would keep the entry alive.
  void remove(int fd) { HC_CHECK(::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0); }

  // Sleeps until something happens or `timeout_ms` passed (-1: for ever). A signal ends the sleep
  // with no event. The events hold until the next wait.
  std::span<const epoll_event> wait(int timeout_ms) {
    const int count = ::epoll_wait(fd_.get(), events_.data(), static_cast<int>(events_.size()),
                                   timeout_ms);
    HC_CHECK(count >= 0 || errno == EINTR);
    return {events_.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
  }

 private:
  explicit Epoll(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::array<epoll_event, 64> events_{};
};

}  // namespace hc
