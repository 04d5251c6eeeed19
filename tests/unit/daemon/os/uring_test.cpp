// SPDX-License-Identifier: Apache-2.0
// uring_test: the ring itself: modes, results and its event. daemon/os/uring.cpp
#include "daemon/os/uring.h"

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <cerrno>

#include "disk_fixture.h"

namespace hc::test {

namespace {

bool is_up(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

TEST_CASE("the best mode of this kernel is found, or the kernel's refusal is told") {
  const auto modes = uring_modes();

  auto ring = Uring::create_best(8);

  if (modes.empty()) {
    REQUIRE_FALSE(ring);
    CHECK(ring.error().code == Code::unsupported);
    CHECK(ring.error().sys_errno == io_uring_refusal(8));
  } else {
    REQUIRE(ring);
    CHECK(ring->mode() == modes.front());
  }
}

TEST_CASE("a result comes back with its tag, and errors as negative errno") {
  const Blocks blocks(kBlockBytes);
  const iovec vector{blocks.data(), kBlockBytes};
  for (const UringMode mode : uring_modes()) {
    INFO(uring_mode_name(mode));
    auto ring = Uring::create(8, mode);
    REQUIRE(ring);
    std::array<Uring::Done, 8> done{};

    ring->queue_read(77, Uring::Target{}, {&vector, 1}, 0);
    ring->submit_and_wait();

    REQUIRE(ring->reap(done) == 1);
    CHECK(done[0].tag == 77);
    CHECK(done[0].result == -EBADF);
    CHECK(ring->reap(done) == 0);
  }
}

TEST_CASE("the event is up when a completion waits, and stays down after it was cleared") {
  for (const UringMode mode : uring_modes()) {
    INFO(uring_mode_name(mode));
    auto ring = Uring::create(8, mode);
    REQUIRE(ring);
    std::array<Uring::Done, 8> done{};
    CHECK_FALSE(is_up(ring->event_fd()));

    ring->queue_sync(1, -1);
    ring->submit_and_wait();
    CHECK(is_up(ring->event_fd()));
    ring->clear_event();

    CHECK(ring->reap(done) == 1);
    CHECK_FALSE(is_up(ring->event_fd()));
  }
}

TEST_CASE("more operations than entries are taken in turns") {
  for (const UringMode mode : uring_modes()) {
    INFO(uring_mode_name(mode));
    auto ring = Uring::create(8, mode);
    REQUIRE(ring);
    std::array<Uring::Done, 32> done{};

    for (std::uint64_t tag = 0; tag < 16; ++tag) {
      ring->queue_sync(tag, -1);
    }
    std::uint32_t count = 0;
    while (count < 16) {
      ring->submit_and_wait();
      count += ring->reap(std::span(done).subspan(count));
    }

    CHECK(count == 16);
  }
}

}  // namespace hc::test
