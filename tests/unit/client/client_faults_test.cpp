// SPDX-License-Identifier: Apache-2.0
// client_faults_test: the background thread when the session breaks, memory runs short, or the
// daemon hangs; also tests client/client_background.cpp.
#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/hicache.h"
#include "support/catch.h"
#include "unit/client/alloc_fault.h"
#include "unit/client/caller.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::Caller;
using test::FakeDaemon;
using test::FakeOptions;
using test::Rig;
using test::SamplePages;

using Numbers = std::vector<std::uint32_t>;

std::uint64_t store(Rig& rig) {
  const SamplePages pages(1);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;
  REQUIRE(hicache_store(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
  return op_id;
}

std::size_t poll_count(Rig& rig) {
  std::array<hicache_completion, 4> done{};
  std::size_t count = 9;
  REQUIRE(hicache_poll(rig.client, done.data(), done.size(), &count) == HICACHE_OK);
  return count;
}

// A daemon that takes a detach, or the end of the socket, and does nothing.
FakeOptions hanging() {
  FakeOptions options;
  options.answer_detach = false;
  return options;
}

// The daemon comes back to life and ends the session, as it does for a client that has left.
void let_go(Rig& rig) {
  rig.daemon->set([](FakeOptions& o) { o.answer_detach = true; });
  rig.daemon->end_session(Code::cancelled, "detached");
}

TEST_CASE("a broken message tells the daemon, which keeps the memory until it has let go") {
  Rig rig(hanging());
  const std::uint64_t storing = store(rig);

  rig.daemon->send_nonsense();
  rig.daemon->await_end_of_sending();

  CHECK(rig.daemon->detaches() == 1);
  CHECK(hicache_state(rig.client) == HICACHE_DISCONNECTED);
  CHECK(poll_count(rig) == 0);

  let_go(rig);
  const hicache_completion done = rig.next();
  CHECK(done.op_id == storing);
  CHECK(done.code == HICACHE_DISCONNECTED);
  CHECK(done.terminal == 1);
  rig.daemon->await_attach(2);
}

TEST_CASE("what a daemon says after a broken message counts no more") {
  Rig rig(hanging());

  rig.daemon->send_nonsense();
  rig.daemon->await_end_of_sending();
  rig.daemon->send_nonsense();
  let_go(rig);

  rig.daemon->await_attach(2);
  rig.await_state(HICACHE_OK);
  CHECK(rig.daemon->detaches() == 1);
}

TEST_CASE("a session that breaks ends its side of the socket") {
  Rig rig(hanging());
  const std::uint64_t storing = store(rig);
  rig.daemon->break_completion_tail();
  CHECK(poll_count(rig) == 0);

  rig.daemon->await_end_of_sending();

  let_go(rig);
  CHECK(rig.next().op_id == storing);
}

TEST_CASE("closing ends this side of the socket and waits for the other") {
  Rig rig(hanging());
  hicache_code code = HICACHE_PROTOCOL;
  Caller closer([&] { code = hicache_close(std::exchange(rig.client, nullptr), test::kCallMs); });

  rig.daemon->await_end_of_sending();
  let_go(rig);
  closer.join();

  CHECK(code == HICACHE_OK);
}

TEST_CASE("memory that runs short in the background thread costs an attempt, not the client") {
  const int number = GENERATE(1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 21, 26, 32, 40);
  Rig rig;
  const std::uint64_t storing = store(rig);

  test::fail_background_allocation(number);
  rig.daemon->become_new_instance();
  rig.daemon->crash();
  hicache_completion last = rig.next();
  while (last.terminal == 0) {
    last = rig.next();
  }
  rig.await_state(HICACHE_OK);

  CHECK(test::background_allocation_failed());
  CHECK(last.op_id == storing);
  CHECK(last.code == HICACHE_DISCONNECTED);
  CHECK(rig.daemon->regions() == Numbers{3});
}

TEST_CASE("memory that runs short in a session frees no memory that the daemon still holds") {
  Rig rig(hanging());
  const std::uint64_t storing = store(rig);

  test::fail_background_allocation(1);
  rig.daemon->send_notice(NoticeKind::serving, Code::ok, "");
  rig.daemon->await_end_of_sending();

  const hicache_completion late = rig.next();
  CHECK(late.op_id == storing);
  CHECK(late.ack == HICACHE_ACK_LATE);
  CHECK(late.terminal == 0);
  CHECK(poll_count(rig) == 0);

  let_go(rig);
  CHECK(rig.next().terminal == 1);
  rig.daemon->await_attach(2);
}

TEST_CASE("the background thread blocks the engine's signals, but not those of its own faults") {
  const Rig rig;
  const std::string thread = test::background_thread();
  REQUIRE_FALSE(thread.empty());

  const std::uint64_t blocked = std::stoull(test::thread_status(thread, "SigBlk"), nullptr, 16);

  const auto is_blocked = [&](int signal) { return ((blocked >> (signal - 1)) & 1U) != 0; };
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    CHECK_FALSE(is_blocked(own));
  }
  for (const int engine : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGPROF}) {
    CHECK(is_blocked(engine));
  }
}

}  // namespace
}  // namespace hc
