// SPDX-License-Identifier: Apache-2.0
// client_reattach_test: what becomes of leases between two sessions; tests
// client/client_reattach.cpp.
#include <string>
#include <vector>

#include "client/hicache.h"
#include "support/catch.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::FakeDaemon;
using test::FakeOptions;
using test::Rig;
using test::SamplePages;

// A client with leases of the fake daemon: one page each, kv in frame 2.
struct Reattach {
  Rig rig;

  std::uint64_t lease(std::uint64_t daemon_lease) {
    const SamplePages pages(1);
    const hicache_op op = test::sample_op();
    std::uint64_t op_id = 0;
    REQUIRE(hicache_pin(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
    const RequestEntry request = rig.daemon->next_request();
    rig.daemon->write_frame_ref(request.op_slot, 0, 0, {2, 0, 0, 0});
    rig.daemon->write_frame_ref(request.op_slot, 0, 1, {kNone32, 1, 0, 0});
    CompletionEntry entry = FakeDaemon::answer(request, Code::ok, Ack::done);
    entry.lease = daemon_lease;
    rig.daemon->complete(entry);
    const std::uint64_t handle = rig.next().lease;
    REQUIRE(handle != 0);
    return handle;
  }
  hicache_code view(std::uint64_t lease, hicache_view& out) {
    return hicache_lease_view(rig.client, lease, 0, 0, &out);
  }
  hicache_code release(std::uint64_t lease) {
    const hicache_op op = test::sample_op();
    std::uint64_t op_id = 0;
    return hicache_release(rig.client, &op, lease, &op_id);
  }
  void keep(bool keeps) {
    rig.daemon->set([keeps](FakeOptions& options) { options.keep_leases = keeps; });
  }
  // The session breaks, and attempts to attach find a daemon that has no time.
  void break_off() {
    rig.daemon->set([](FakeOptions& options) { options.refuse_attach = Code::busy; });
    rig.daemon->crash();
    rig.await_state(HICACHE_DISCONNECTED);
  }
  void come_back(std::uint32_t attaches = 2) {
    rig.daemon->set([](FakeOptions& options) { options.refuse_attach = Code::ok; });
    rig.daemon->await_attach(attaches);
    rig.await_state(HICACHE_OK);
  }
};

TEST_CASE("the first attach names no session before it") {
  Reattach at;
  CHECK(at.rig.daemon->attach_request().previous_session == 0);
  CHECK(at.rig.daemon->attach_request().previous_daemon == Uuid{});
  CHECK(at.rig.daemon->attach_request().lease_count == 0);
}

TEST_CASE("leases that the daemon has kept go on: handles, views and releases") {
  Reattach at;
  const std::uint64_t lease = at.lease(0x700000003);
  hicache_view before{};
  REQUIRE(at.view(lease, before) == HICACHE_OK);
  at.keep(true);

  at.rig.daemon->crash();
  at.rig.daemon->await_attach(2);
  at.rig.await_state(HICACHE_OK);

  CHECK(at.rig.daemon->attach_request().previous_session == 100);
  CHECK(at.rig.daemon->attach_request().previous_daemon[0] == 1);
  CHECK(at.rig.daemon->listed_leases() == std::vector<LeaseId>{{0x700000003}});
  hicache_view after{};
  CHECK(at.view(lease, after) == HICACHE_OK);
  CHECK(after.data == before.data);
  CHECK(hicache_view_intact(at.rig.client, &before) == 1);
  CHECK(at.release(lease) == HICACHE_OK);
  CHECK(at.rig.daemon->next_request().lease == 0x700000003);
}

TEST_CASE("leases go on through two sessions, each of which has brought some") {
  Reattach at;
  const std::uint64_t first = at.lease(0x700000003);
  hicache_view view{};
  REQUIRE(at.view(first, view) == HICACHE_OK);
  at.keep(true);
  at.break_off();
  at.come_back();
  const std::uint64_t second = at.lease(0x700000004);

  at.break_off();
  at.come_back(3);

  CHECK(at.rig.daemon->attach_request().previous_session == 101);
  CHECK(at.rig.daemon->listed_leases().size() == 2);
  CHECK(hicache_view_intact(at.rig.client, &view) == 1);
  CHECK(at.release(first) == HICACHE_OK);
  CHECK(at.release(second) == HICACHE_OK);
}

TEST_CASE("leases that the daemon has not kept have ended, however it is the same daemon") {
  Reattach at;
  const std::uint64_t lease = at.lease(0x700000003);
  hicache_view view{};
  REQUIRE(at.view(lease, view) == HICACHE_OK);

  at.break_off();
  at.come_back();

  CHECK(at.view(lease, view) == HICACHE_NOT_FOUND);
  CHECK(hicache_view_intact(at.rig.client, &view) == 0);
  CHECK(at.release(lease) == HICACHE_NOT_FOUND);
  CHECK_FALSE(at.rig.daemon->has_request());
}

TEST_CASE("a daemon that says it keeps the leases of another one is not believed") {
  Reattach at;
  const std::uint64_t lease = at.lease(0x700000003);
  at.keep(true);
  at.rig.daemon->become_new_instance();

  at.break_off();
  at.come_back();

  hicache_view view{};
  CHECK(at.view(lease, view) == HICACHE_NOT_FOUND);
}

TEST_CASE("leases end with the daemon's death, also while no other one answers") {
  Reattach at;
  const std::uint64_t lease = at.lease(0x700000003);
  hicache_view view{};
  at.keep(true);
  at.break_off();
  REQUIRE(at.view(lease, view) == HICACHE_OK);
  CHECK(hicache_view_intact(at.rig.client, &view) == 0);  // nobody knows it now

  at.rig.daemon->die_fully();

  while (at.view(lease, view) != HICACHE_NOT_FOUND) {
    ::usleep(1000);  // waits: the end of a process is seen by the background thread
  }
  CHECK(at.release(lease) == HICACHE_NOT_FOUND);
}

TEST_CASE("a lease that is released while no session stands is not listed, and ends there") {
  Reattach at;
  const std::uint64_t gone = at.lease(0x700000003);
  const std::uint64_t kept = at.lease(0x700000004);
  at.keep(true);
  at.break_off();

  CHECK(at.release(gone) == HICACHE_DISCONNECTED);
  CHECK(at.release(gone) == HICACHE_BAD_ARGUMENT);
  hicache_view view{};
  CHECK(at.view(gone, view) == HICACHE_BAD_ARGUMENT);
  at.come_back();

  CHECK(at.rig.daemon->listed_leases() == std::vector<LeaseId>{{0x700000004}});
  CHECK(at.view(kept, view) == HICACHE_OK);
  CHECK_FALSE(at.rig.daemon->has_request());
}

TEST_CASE("a lease that is released while the attach is under way is released behind it") {
  Reattach at;
  const std::uint64_t lease = at.lease(0x700000003);
  at.rig.daemon->set([](FakeOptions& options) {
    options.keep_leases = true;
    options.answer_calls = false;  // the region, which the attach registers again
  });
  at.rig.daemon->crash();
  at.rig.daemon->await_held(1);
  REQUIRE(at.rig.daemon->listed_leases().size() == 1);

  CHECK(at.release(lease) == HICACHE_DISCONNECTED);
  at.rig.daemon->answer_held();

  const RequestEntry request = at.rig.daemon->next_request();
  CHECK(request.verb == static_cast<std::uint8_t>(Verb::release));
  CHECK(request.lease == 0x700000003);
  at.rig.daemon->complete(FakeDaemon::answer(request, Code::ok, Ack::done));
  hicache_completion out{};
  std::size_t count = 0;
  CHECK(hicache_wait(at.rig.client, &out, 1, 50, &count) == HICACHE_TIMED_OUT);  // nobody asked
}

TEST_CASE("a release that was in flight when the session broke is not listed either") {
  Reattach at;
  const std::uint64_t lease = at.lease(0x700000003);
  at.keep(true);
  REQUIRE(at.release(lease) == HICACHE_OK);

  at.break_off();
  at.come_back();

  CHECK(at.rig.daemon->listed_leases().empty());
  CHECK(at.rig.next().code == HICACHE_DISCONNECTED);
}

TEST_CASE("a client that gives up a session says that it comes back, one that closes does not") {
  Reattach at;
  const std::uint64_t lease = at.lease(0x700000003);
  at.keep(true);
  at.rig.daemon->send_nonsense();
  at.rig.daemon->await_attach(2);
  at.rig.await_state(HICACHE_OK);
  CHECK(at.rig.daemon->leaves() == 1);
  CHECK(at.rig.daemon->listed_leases().size() == 1);
  hicache_view view{};
  CHECK(at.view(lease, view) == HICACHE_OK);

  REQUIRE(hicache_close(at.rig.client, test::kCallMs) == HICACHE_OK);
  at.rig.client = nullptr;

  CHECK(at.rig.daemon->leaves() == 1);
  CHECK(at.rig.daemon->detaches() == 2);
  CHECK(at.rig.daemon->attaches() == 2);
}

TEST_CASE("a client that is closed without a session tells the daemon that none follows") {
  Reattach at;
  at.lease(0x700000003);
  at.keep(true);
  at.break_off();
  at.rig.daemon->set([](FakeOptions& options) { options.refuse_attach = Code::ok; });

  REQUIRE(hicache_close(at.rig.client, test::kCallMs) == HICACHE_OK);
  at.rig.client = nullptr;

  at.rig.daemon->await_attach(2);
  while (at.rig.daemon->detaches() == 0) {
    ::usleep(1000);  // waits: the message is behind the attach
  }
  CHECK(at.rig.daemon->leaves() == 0);
}

TEST_CASE("leases of a client that was superseded have ended") {
  Reattach at;
  const std::uint64_t lease = at.lease(0x700000003);

  at.rig.daemon->end_session(Code::superseded, "another came");
  at.rig.await_state(HICACHE_SUPERSEDED);

  hicache_view view{};
  CHECK(at.view(lease, view) == HICACHE_NOT_FOUND);
}

}  // namespace
}  // namespace hc
