// SPDX-License-Identifier: Apache-2.0
// client_background_test: the end of sessions, the memory rule, reattaching, forks and closing;
// tests client/client.cpp and client/client_background.cpp.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
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

using Numbers = std::vector<std::uint32_t>;

std::uint64_t submit(Rig& rig, bool names_memory, std::uint64_t user_data) {
  const SamplePages pages(1);
  const hicache_op op = test::sample_op(user_data);
  std::uint64_t op_id = 0;
  const auto call = names_memory ? hicache_store : hicache_reload;
  REQUIRE(call(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
  return op_id;
}

std::uint64_t instances(Rig& rig) {
  std::uint64_t count = 0;
  REQUIRE(hicache_instances(rig.client, &count) == HICACHE_OK);
  return count;
}

TEST_CASE("an attach says who the rank is") {
  Rig rig;

  const AttachRequest request = rig.daemon->attach_request();

  CHECK(std::string(request.group.data()) == "g");
  CHECK(request.rank == 1);
  CHECK(request.world == 2);
  CHECK(request.tensor == 1);
  CHECK(request.incarnation != 0);
  CHECK(request.protocol == kProtocolVersion);
  CHECK(rig.daemon->space().model == "sample");
  CHECK(rig.daemon->space().tenant.empty());
  CHECK(hicache_state(rig.client) == HICACHE_OK);
  CHECK(instances(rig) == 1);
}

TEST_CASE("an attach that the daemon refuses fails at once with the daemon's line") {
  const test::SocketFolder folder;
  const std::string socket = folder.socket();
  for (const Code code : {Code::refused, Code::bad_argument, Code::superseded, Code::no_space}) {
    FakeOptions refuse;
    refuse.refuse_attach = code;
    refuse.refusal = "protocol 9 is not spoken here";
    FakeDaemon daemon(socket, refuse);
    const hicache_options options = test::sample_options(socket);
    const test::SampleSpace space;
    auto* client = reinterpret_cast<hicache_client*>(1);

    CHECK(hicache_open(&options, &space.space, &client) == static_cast<hicache_code>(code));
    CHECK(client == nullptr);
    CHECK(std::string(hicache_last_error()) == "protocol 9 is not spoken here");
  }
}

TEST_CASE("without a daemon an open ends at its timeout and names the socket") {
  const test::SocketFolder folder;
  const std::string socket = folder.socket();
  hicache_options options = test::sample_options(socket);
  options.attach_timeout_ms = 1;
  const test::SampleSpace space;
  hicache_client* client = nullptr;

  const hicache_code code = hicache_open(&options, &space.space, &client);

  CHECK((code == HICACHE_DISCONNECTED || code == HICACHE_TIMED_OUT));
  CHECK(std::string(hicache_last_error()).find(socket) != std::string::npos);
  CHECK(client == nullptr);
}

TEST_CASE("an open waits for a daemon that is being started") {
  const test::SocketFolder folder;
  const std::string socket = folder.socket();
  const hicache_options options = test::sample_options(socket);
  const test::SampleSpace space;
  hicache_client* client = nullptr;
  hicache_code code = HICACHE_PROTOCOL;

  std::thread opener([&] { code = hicache_open(&options, &space.space, &client); });
  const FakeDaemon daemon(socket);
  opener.join();

  CHECK(code == HICACHE_OK);
  CHECK(hicache_close(client, test::kCallMs) == HICACHE_OK);
}

TEST_CASE("a background open succeeds without a daemon and attaches when one comes") {
  const test::SocketFolder folder;
  const std::string socket = folder.socket();
  hicache_options options = test::sample_options(socket);
  options.flags = HICACHE_OPEN_BACKGROUND;
  const test::SampleSpace space;
  hicache_client* client = nullptr;
  REQUIRE(hicache_open(&options, &space.space, &client) == HICACHE_OK);
  std::uint64_t count = 9;
  hicache_completion done{};
  std::size_t taken = 9;

  CHECK(hicache_state(client) == HICACHE_DISCONNECTED);
  CHECK(hicache_instances(client, &count) == HICACHE_OK);
  CHECK(count == 0);
  CHECK(hicache_poll(client, &done, 1, &taken) == HICACHE_DISCONNECTED);
  CHECK(hicache_wait(client, &done, 1, 600000, &taken) == HICACHE_DISCONNECTED);

  FakeDaemon daemon(socket);
  daemon.await_attach(1);
  while (hicache_state(client) != HICACHE_OK) {
    ::usleep(1000);  // waits: the state has no event of its own in the C interface
  }
  CHECK(hicache_close(client, test::kCallMs) == HICACHE_OK);
}

TEST_CASE("when the daemon dies an operation keeps its memory until its process is gone") {
  Rig rig;
  const std::uint64_t storing = submit(rig, true, 1);
  const std::uint64_t reloading = submit(rig, false, 2);

  rig.daemon->crash();

  const hicache_completion first = rig.next();
  CHECK(first.op_id == reloading);  // It names no memory.
  CHECK(first.code == HICACHE_DISCONNECTED);
  CHECK(first.terminal == 1);
  const hicache_completion late = rig.next();
  CHECK(late.op_id == storing);
  CHECK(late.ack == HICACHE_ACK_LATE);
  CHECK(late.terminal == 0);
  CHECK(hicache_state(rig.client) == HICACHE_DISCONNECTED);
  CHECK(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_BUSY);

  rig.daemon->become_new_instance();  // The old process is gone.

  const hicache_completion last = rig.next();
  CHECK(last.op_id == storing);
  CHECK(last.user_data == 1);
  CHECK(last.code == HICACHE_DISCONNECTED);
  CHECK(last.terminal == 1);
}

TEST_CASE("an orderly end frees memory at once although the daemon lives") {
  Rig rig;
  const std::uint64_t storing = submit(rig, true, 1);

  rig.daemon->end_session(Code::protocol, "the client sent nonsense");

  const hicache_completion done = rig.next();
  CHECK(done.op_id == storing);
  CHECK(done.code == HICACHE_DISCONNECTED);
  CHECK(done.terminal == 1);
  rig.daemon->await_attach(2);
}

TEST_CASE("what the daemon had answered before it died is not lost") {
  Rig rig;
  submit(rig, true, 5);
  rig.daemon->complete(FakeDaemon::answer(rig.daemon->next_request(), Code::ok, Ack::resident));

  rig.daemon->crash();
  rig.daemon->await_attach(2);

  const hicache_completion done = rig.next();
  CHECK(done.user_data == 5);
  CHECK(done.code == HICACHE_OK);
  CHECK(done.terminal == 1);
}

TEST_CASE("after a restart the client attaches with its regions and counts the new instance") {
  Rig rig;
  CHECK(instances(rig) == 1);

  rig.daemon->crash();
  rig.daemon->await_attach(2);
  rig.await_state(HICACHE_OK);
  CHECK(instances(rig) == 1);  // The same daemon.

  rig.daemon->become_new_instance();
  rig.daemon->crash();
  rig.daemon->await_attach(3);
  rig.await_state(HICACHE_OK);

  CHECK(instances(rig) == 2);
  CHECK(rig.daemon->regions() == Numbers{3});
  const std::uint64_t op_id = submit(rig, true, 8);
  CHECK(op_id >> 38 == 3);  // Names the attachment: no op id of an earlier one comes back.
  rig.daemon->complete(FakeDaemon::answer(rig.daemon->next_request(), Code::ok, Ack::resident));
  CHECK(rig.next().user_data == 8);
}

TEST_CASE("a region unregistered while no daemon is there is not registered again") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.refuse_attach = Code::busy; });
  rig.daemon->crash();
  rig.await_state(HICACHE_DISCONNECTED);

  CHECK(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_OK);
  CHECK(hicache_register_region(rig.client, &rig.region.region, test::kCallMs) ==
        HICACHE_DISCONNECTED);

  rig.daemon->set([](FakeOptions& o) { o.refuse_attach = Code::ok; });
  rig.daemon->await_attach(2);
  rig.await_state(HICACHE_OK);
  CHECK(rig.daemon->regions().empty());
}

TEST_CASE("a region unregistered in the middle of a reattach is taken back after it") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });
  rig.daemon->crash();
  rig.daemon->await_held(1);  // The registration of region 3.

  CHECK(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_OK);
  rig.daemon->answer_held();
  rig.await_state(HICACHE_OK);

  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!rig.daemon->regions().empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  CHECK(rig.daemon->regions().empty());
}

TEST_CASE("while no daemon answers every call says so at once") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.refuse_attach = Code::busy; });
  rig.daemon->crash();
  rig.await_state(HICACHE_DISCONNECTED);
  const SamplePages pages(1);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;
  hicache_prefix prefix{};
  hicache_stats stats{};
  stats.struct_bytes = sizeof stats;

  CHECK(hicache_exists_prefix(rig.client, pages.pages.data(), 1, &prefix) == HICACHE_DISCONNECTED);
  CHECK(hicache_store(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_DISCONNECTED);
  CHECK(hicache_flush(rig.client, &op, &op_id) == HICACHE_DISCONNECTED);
  CHECK(hicache_cancel(rig.client, &op, 1, &op_id) == HICACHE_DISCONNECTED);
  CHECK(hicache_space_switch(rig.client, "v2", test::kCallMs) == HICACHE_DISCONNECTED);
  CHECK(hicache_get_stats(rig.client, &stats, test::kCallMs) == HICACHE_DISCONNECTED);
}

TEST_CASE("a session that a newer client took over is not attached again") {
  Rig rig;
  const std::uint64_t storing = submit(rig, true, 1);

  rig.daemon->end_session(Code::superseded, "a newer client of g/1 took over");
  rig.await_state(HICACHE_SUPERSEDED);

  CHECK(std::string(hicache_last_error()).find("a newer client of g/1 took over") !=
        std::string::npos);
  CHECK(rig.next().op_id == storing);
  hicache_completion done{};
  std::size_t count = 0;
  CHECK(hicache_wait(rig.client, &done, 1, 600000, &count) == HICACHE_SUPERSEDED);
  CHECK(rig.daemon->attaches() == 1);
}

TEST_CASE("a refused reattach is final") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.refuse_attach = Code::refused; });

  rig.daemon->crash();
  rig.await_state(HICACHE_REFUSED);

  CHECK(std::string(hicache_last_error()) == "refused by the test");
}

TEST_CASE("a wait ends when the daemon dies") {
  Rig rig;
  submit(rig, false, 4);
  hicache_completion done{};
  std::size_t count = 0;
  hicache_code code = HICACHE_PROTOCOL;
  std::thread waiter([&] { code = hicache_wait(rig.client, &done, 1, 600000, &count); });
  rig.daemon->await_waiting(kWaitFutex);

  rig.daemon->crash();
  waiter.join();

  CHECK(code == HICACHE_OK);
  CHECK(done.user_data == 4);
  CHECK(done.code == HICACHE_DISCONNECTED);
}

TEST_CASE("a completion that nobody waits for ends the session, and the client comes back") {
  Rig rig;
  submit(rig, false, 1);
  RequestEntry request = rig.daemon->next_request();
  request.op_sequence += 1;
  rig.daemon->complete(FakeDaemon::answer(request, Code::ok, Ack::done));

  CHECK(rig.next().code == HICACHE_DISCONNECTED);

  rig.daemon->await_attach(2);
  CHECK(rig.daemon->detaches() == 1);
}

TEST_CASE("an impossible completion index ends the session, and the client comes back") {
  Rig rig;
  submit(rig, false, 1);

  rig.daemon->break_completion_tail();

  CHECK(rig.next().code == HICACHE_DISCONNECTED);
  rig.daemon->await_attach(2);
}

TEST_CASE("closing detaches and waits until the daemon has ended the session") {
  auto rig = std::make_unique<Rig>();
  submit(*rig, true, 1);

  CHECK(hicache_close(std::exchange(rig->client, nullptr), test::kCallMs) == HICACHE_OK);

  CHECK(rig->daemon->detaches() == 1);
}

TEST_CASE("closing against a daemon that hangs says that memory may still be touched") {
  FakeOptions options;
  options.answer_detach = false;
  Rig rig(options);
  submit(rig, true, 1);

  CHECK(hicache_close(std::exchange(rig.client, nullptr), 1) == HICACHE_TIMED_OUT);

  CHECK(std::string(hicache_last_error()).find("may still be touched") != std::string::npos);
}

TEST_CASE("closing while the daemon is away is immediate") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.refuse_attach = Code::busy; });
  rig.daemon->crash();
  rig.await_state(HICACHE_DISCONNECTED);

  CHECK(hicache_close(std::exchange(rig.client, nullptr), 0) == HICACHE_OK);
}

TEST_CASE("a forked child is refused and does not disturb its parent") {
  Rig rig;
  submit(rig, false, 6);
  const RequestEntry request = rig.daemon->next_request();

  const pid_t child = ::fork();
  if (child == 0) {
    const SamplePages pages(1);
    const hicache_op op = test::sample_op();
    std::uint64_t op_id = 0;
    hicache_prefix prefix{};
    const bool refused =
        hicache_state(rig.client) == HICACHE_REFUSED &&
        hicache_exists_prefix(rig.client, pages.pages.data(), 1, &prefix) == HICACHE_REFUSED &&
        hicache_store(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_REFUSED &&
        hicache_close(rig.client, test::kCallMs) == HICACHE_REFUSED;
    ::_exit(refused ? 42 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 42);

  CHECK(hicache_state(rig.client) == HICACHE_OK);
  rig.daemon->complete(FakeDaemon::answer(request, Code::ok, Ack::done));
  CHECK(rig.next().user_data == 6);
  CHECK(rig.daemon->attaches() == 1);
}

}  // namespace
}  // namespace hc
