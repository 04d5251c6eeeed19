// SPDX-License-Identifier: Apache-2.0
// client_waits_test: how a caller learns of completions: futex, timeout and event descriptor.
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "client/hicache.h"
#include "support/catch.h"
#include "unit/client/caller.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::Caller;
using test::FakeDaemon;
using test::Rig;
using test::SamplePages;

std::uint64_t reload(Rig& rig, const hicache_op& op, const SamplePages& pages) {
  std::uint64_t op_id = 0;
  REQUIRE(hicache_reload(rig.client, &op, pages.pages.data(), pages.pages.size(), &op_id) ==
          HICACHE_OK);
  return op_id;
}

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

void await_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  REQUIRE(::poll(&entry, 1, 30000) == 1);
}

TEST_CASE("a waiting thread says so and is woken by a completion") {
  Rig rig;
  reload(rig, test::sample_op(9), SamplePages(1));
  const RequestEntry request = rig.daemon->next_request();
  hicache_completion done{};
  std::size_t count = 0;
  hicache_code code = HICACHE_PROTOCOL;
  std::thread waiter([&] { code = hicache_wait(rig.client, &done, 1, 600000, &count); });
  rig.daemon->await_waiting(kWaitFutex);

  rig.daemon->complete(FakeDaemon::answer(request, Code::ok, Ack::done));
  waiter.join();

  CHECK(code == HICACHE_OK);
  CHECK(count == 1);
  CHECK(done.user_data == 9);
  CHECK(rig.daemon->client_waiting() == 0);
}

TEST_CASE("two threads may wait while a third submits") {
  Rig rig;
  std::array<hicache_completion, 2> done{};
  std::array<hicache_code, 2> codes{};
  std::vector<std::thread> waiters;
  for (std::size_t i = 0; i < 2; ++i) {
    waiters.emplace_back([&rig, &done, &codes, i] {
      std::size_t count = 0;
      codes[i] = hicache_wait(rig.client, &done[i], 1, 600000, &count);
    });
  }
  rig.daemon->await_waiting(kWaitFutex);

  for (std::uint64_t number = 1; number <= 2; ++number) {
    reload(rig, test::sample_op(number), SamplePages(1));
    rig.daemon->complete(FakeDaemon::answer(rig.daemon->next_request(), Code::ok, Ack::done));
  }
  for (std::thread& waiter : waiters) {
    waiter.join();
  }

  CHECK(codes[0] == HICACHE_OK);
  CHECK(codes[1] == HICACHE_OK);
  CHECK(done[0].user_data + done[1].user_data == 3);
}

TEST_CASE("a wait for nothing times out and a poll of nothing is ok") {
  Rig rig;
  hicache_completion done{};
  std::size_t count = 5;

  CHECK(hicache_wait(rig.client, &done, 1, 0, &count) == HICACHE_TIMED_OUT);
  CHECK(count == 0);
  CHECK(hicache_wait(rig.client, &done, 1, 1, &count) == HICACHE_TIMED_OUT);
  CHECK(hicache_poll(rig.client, &done, 1, &count) == HICACHE_OK);
  CHECK(count == 0);
}

TEST_CASE("the event descriptor is readable exactly while completions may be there") {
  Rig rig;
  int fd = -1;
  REQUIRE(hicache_event_fd(rig.client, &fd) == HICACHE_OK);
  rig.daemon->await_waiting(kWaitPacket);
  std::array<hicache_completion, 4> done{};
  std::size_t count = 0;
  await_readable(fd);  // What came before the wish brought no message, so the first look is free.
  REQUIRE(hicache_poll(rig.client, done.data(), 4, &count) == HICACHE_OK);
  CHECK_FALSE(readable(fd));

  for (int i = 0; i < 2; ++i) {
    reload(rig, test::sample_op(), SamplePages(1));
  }
  const RequestEntry first = rig.daemon->next_request();
  const RequestEntry second = rig.daemon->next_request();
  rig.daemon->complete(FakeDaemon::answer(first, Code::ok, Ack::done));
  rig.daemon->complete(FakeDaemon::answer(second, Code::ok, Ack::done));
  await_readable(fd);

  REQUIRE(hicache_poll(rig.client, done.data(), 1, &count) == HICACHE_OK);
  CHECK(count == 1);
  CHECK(readable(fd));  // One is left.
  REQUIRE(hicache_poll(rig.client, done.data(), 4, &count) == HICACHE_OK);
  CHECK(count == 1);
}

TEST_CASE("waiting in the futex does not take back the wish for messages") {
  Rig rig;
  int fd = -1;
  REQUIRE(hicache_event_fd(rig.client, &fd) == HICACHE_OK);
  hicache_completion done{};
  std::size_t count = 0;

  CHECK(hicache_wait(rig.client, &done, 1, 1, &count) == HICACHE_TIMED_OUT);

  CHECK(rig.daemon->client_waiting() == kWaitPacket);
}

// Clears the descriptor where nothing is there.
bool quiet_poll(Rig& rig) {
  hicache_completion done{};
  std::size_t count = 9;
  return hicache_poll(rig.client, &done, 1, &count) == HICACHE_OK && count == 0;
}

// Takes what the wish for the descriptor itself has made readable.
int quiet_event_fd(Rig& rig) {
  int fd = -1;
  REQUIRE(hicache_event_fd(rig.client, &fd) == HICACHE_OK);
  REQUIRE(quiet_poll(rig));
  return fd;
}

TEST_CASE("an engine that sleeps on the event descriptor learns that a hanging daemon is late") {
  Rig rig;
  const bool wish_first = GENERATE(true, false);
  hicache_op op = test::sample_op(7);
  op.deadline_ms = 1;
  int fd = wish_first ? quiet_event_fd(rig) : -1;
  reload(rig, op, SamplePages(1));
  if (!wish_first) {
    fd = quiet_event_fd(rig);  // In time: the client waits a while longer than the deadline.
  }

  await_readable(fd);

  const hicache_completion late = rig.next();
  CHECK(late.user_data == 7);
  CHECK(late.ack == HICACHE_ACK_LATE);
  CHECK(late.code == HICACHE_TIMED_OUT);
  CHECK(late.terminal == 0);
}

TEST_CASE("a nearer deadline than the client sleeps for is noticed on the event descriptor") {
  Rig rig;
  const int fd = quiet_event_fd(rig);
  reload(rig, test::sample_op(1), SamplePages(1));
  hicache_op near = test::sample_op(2);
  near.deadline_ms = 1;
  reload(rig, near, SamplePages(1));
  await_readable(fd);
  REQUIRE(rig.next().user_data == 2);
  // What reported it has gone to sleep for the farther deadline.
  REQUIRE(quiet_poll(rig));
  near.user_data = 3;
  reload(rig, near, SamplePages(1));

  await_readable(fd);

  CHECK(rig.next().user_data == 3);
}

// From now on the kernel refuses this thread the wait on a futex between processes.
void refuse_shared_futex_waits() {
  constexpr auto kNumber = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto kOperation = static_cast<std::uint32_t>(offsetof(seccomp_data, args[1]));
  std::array<sock_filter, 6> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOperation),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_BITSET, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  HC_CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  HC_CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

long sleeps_of_this_thread() {
  rusage usage{};
  HC_CHECK(::getrusage(RUSAGE_THREAD, &usage) == 0);
  return usage.ru_nvcsw;
}

TEST_CASE("where the kernel refuses the futex a wait sleeps all the same") {
  Rig rig;
  reload(rig, test::sample_op(9), SamplePages(1));
  const RequestEntry request = rig.daemon->next_request();
  hicache_completion done{};
  std::size_t count = 0;
  std::array<hicache_code, 2> codes{};
  std::atomic<long> sleeps = -1;
  Caller waiter([&] {
    refuse_shared_futex_waits();
    const long before = sleeps_of_this_thread();
    codes[0] = hicache_wait(rig.client, &done, 1, 100, &count);
    sleeps = sleeps_of_this_thread() - before;
    codes[1] = hicache_wait(rig.client, &done, 1, 600000, &count);
  });
  while (sleeps < 0) {
    std::this_thread::yield();
  }
  waiter.await_asleep();

  rig.daemon->complete(FakeDaemon::answer(request, Code::ok, Ack::done));
  waiter.join();

  CHECK(codes[0] == HICACHE_TIMED_OUT);
  CHECK(sleeps >= 2);
  CHECK(codes[1] == HICACHE_OK);
  CHECK(done.user_data == 9);
}

}  // namespace
}  // namespace hc
