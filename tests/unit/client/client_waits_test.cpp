// SPDX-License-Identifier: Apache-2.0
// client_waits_test: how a caller learns of completions: futex, timeout and event descriptor.
#include <poll.h>

#include <array>
#include <thread>
#include <vector>

#include "client/hicache.h"
#include "support/catch.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

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

}  // namespace
}  // namespace hc
