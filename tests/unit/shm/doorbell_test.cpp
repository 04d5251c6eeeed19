// SPDX-License-Identifier: Apache-2.0
// doorbell_test: the two doorbells against the real kernel. A lost wake shows as a wait that ran
// into its (very long) limit.
#include "shm/doorbell.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "proto/ring_layout.h"
#include "support/catch.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

constexpr int kLongMs = 60'000;
constexpr std::int64_t kLongNs = 60'000'000'000;

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

UniqueFd new_doorbell() {
  auto bell = make_doorbell();
  REQUIRE(bell);
  return std::move(*bell);
}

UniqueFd epoll_on(int fd) {
  UniqueFd poller(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  REQUIRE(::epoll_ctl(poller.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  return poller;
}

int wait_events(int poller, int timeout_ms) {
  epoll_event event{};
  return ::epoll_wait(poller, &event, 1, timeout_ms);
}

// A word written through one mapping and read through a read-only one, as client and daemon do.
struct SharedWordPair {
  MemoryFile file = make_file(4096);
  Region mine = map_all(file, false);
  Region theirs = map_readonly(file);
  std::uint32_t& word = *mine.writable_at<std::uint32_t>(64);
  const std::uint32_t& seen = *theirs.at<std::uint32_t>(64);

  static Region map_readonly(MemoryFile& file) {
    HC_CHECK(file.finish_seals(true));
    const auto fd = file.readonly_fd();
    HC_CHECK(fd);
    RegionOptions options;
    options.size_bytes = 4096;
    auto region = Region::map(fd->get(), options);
    HC_CHECK(region);
    return std::move(*region);
  }
};

sem_t signal_seen;
void count_signal(int) {
  ::sem_post(&signal_seen);
}

}  // namespace

TEST_CASE("the doorbell rings only while the daemon says that it sleeps") {
  const UniqueFd bell = new_doorbell();
  std::uint32_t sleeping = 0;
  CHECK(ring_if_sleeping(bell.get(), sleeping) == Code::ok);
  CHECK_FALSE(readable(bell.get()));
  mark_sleeping(sleeping);
  CHECK(ring_if_sleeping(bell.get(), sleeping) == Code::ok);
  CHECK(readable(bell.get()));
  mark_awake(sleeping);
  CHECK(sleeping == 0);
}

TEST_CASE("each ring of a doorbell that nobody reads is an edge of its own") {
  const UniqueFd bell = new_doorbell();
  const UniqueFd poller = epoll_on(bell.get());
  CHECK(wait_events(poller.get(), 0) == 0);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(ring_doorbell(bell.get()) == Code::ok);
    CHECK(wait_events(poller.get(), 0) == 1);
    CHECK(wait_events(poller.get(), 0) == 0);
  }
}

TEST_CASE("a doorbell that somebody filled counts as rung, and a broken one is an error") {
  const UniqueFd bell = new_doorbell();
  const std::uint64_t nearly_all = 0xFFFFFFFFFFFFFFFEULL;
  REQUIRE(::write(bell.get(), &nearly_all, sizeof nearly_all) == sizeof nearly_all);
  CHECK(ring_doorbell(bell.get()) == Code::ok);
  CHECK(ring_doorbell(-1) == Code::io_error);
}

TEST_CASE("a daemon that sleeps between requests misses none of them") {
  constexpr std::uint32_t kRequests = 20'000;
  const UniqueFd bell = new_doorbell();
  const UniqueFd poller = epoll_on(bell.get());
  std::uint32_t tail = 0;
  std::uint32_t head = 0;
  std::uint32_t sleeping = 0;
  std::atomic<bool> ring_failed = false;

  // The client waits for each answer every few requests, so that the daemon really falls asleep.
  std::thread client([&] {
    for (std::uint32_t i = 1; i <= kRequests; ++i) {
      store_release(tail, i);
      ring_failed = ring_failed || ring_if_sleeping(bell.get(), sleeping) != Code::ok;
      while (i % 4 == 0 && load_acquire(head) < i && load_acquire(head) != kNone32) {
        std::this_thread::yield();
      }
    }
  });
  std::uint32_t served = 0;
  bool lost = false;
  while (served < kRequests && !lost) {
    mark_sleeping(sleeping);
    full_fence();
    if (load_acquire(tail) == served) {
      lost = wait_events(poller.get(), kLongMs) == 0;
    }
    mark_awake(sleeping);
    served = load_acquire(tail);
    store_release(head, lost ? kNone32 : served);
  }
  client.join();
  CHECK_FALSE(lost);
  CHECK_FALSE(ring_failed);
}

TEST_CASE("waiting on a word that already changed returns at once") {
  const SharedWordPair pair;
  store_release(pair.word, 5);
  CHECK(wait_on(pair.seen, 4, kLongNs) == Code::ok);
}

TEST_CASE("waiting on a word that nobody raises times out") {
  const SharedWordPair pair;
  const std::int64_t timeout_ns =
      GENERATE(std::int64_t{1'000'000}, std::int64_t{0}, std::int64_t{-1}, INT64_MIN);
  CHECK(wait_on(pair.seen, 0, timeout_ns) == Code::timed_out);
}

TEST_CASE("waiting on memory that is no word is an error") {
  const auto* nowhere = reinterpret_cast<const std::uint32_t*>(std::uintptr_t{64});
  CHECK(wait_on(*nowhere, 0, kLongNs) == Code::io_error);
}

TEST_CASE("each batch raises the wake word whether the client waits or not") {
  const SharedWordPair pair;
  std::uint32_t waiting = 0;
  store_release(pair.word, 0xFFFFFFFFU);
  wake_client(pair.word, waiting);
  CHECK(pair.seen == 0);
  waiting = 1;
  wake_client(pair.word, waiting);
  CHECK(pair.seen == 1);
}

TEST_CASE("a client that waits through a read-only mapping misses no completion") {
  constexpr std::uint32_t kCompletions = 20'000;
  const SharedWordPair pair;
  std::uint32_t tail = 0;
  std::uint32_t head = 0;
  std::uint32_t waiting = 0;

  std::thread daemon([&] {
    for (std::uint32_t i = 1; i <= kCompletions; ++i) {
      store_release(tail, i);
      wake_client(pair.word, waiting);
      while (i % 4 == 0 && load_acquire(head) < i) {
        std::this_thread::yield();
      }
    }
  });
  std::uint32_t reaped = 0;
  Code code = Code::ok;
  while (reaped < kCompletions && code == Code::ok) {
    const std::uint32_t seen = begin_wait(waiting, kWaitFutex, pair.seen);
    if (load_acquire(tail) == reaped) {
      code = wait_on(pair.seen, seen, kLongNs);
    }
    end_wait(waiting, 0);
    reaped = load_acquire(tail);
    store_release(head, code == Code::ok ? reaped : kNone32);
  }
  daemon.join();
  CHECK(code == Code::ok);
}

TEST_CASE("signals do not end a wait") {
  const SharedWordPair pair;
  REQUIRE(::sem_init(&signal_seen, 0, 0) == 0);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = count_signal;
  REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);
  std::atomic<int> result = -1;

  std::thread waiter([&] { result = static_cast<int>(wait_on(pair.seen, 0, kLongNs)); });
  // Each signal is handled before the next is sent; all but the first few meet the sleeping wait.
  for (int i = 0; i < 200; ++i) {
    REQUIRE(::pthread_kill(waiter.native_handle(), SIGUSR1) == 0);
    while (::sem_wait(&signal_seen) != 0) {
    }
  }
  CHECK(result == -1);
  const std::uint32_t waiting = 1;
  wake_client(pair.word, waiting);
  waiter.join();
  CHECK(result == static_cast<int>(Code::ok));
  ::sigaction(SIGUSR1, &before, nullptr);
  ::sem_destroy(&signal_seen);
}
