// SPDX-License-Identifier: Apache-2.0
// client_control_test: regions, space switch and stats over the control socket; tests
// client/client_control.cpp.
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>
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
using test::FakeOptions;
using test::Rig;
using test::SamplePages;
using test::SampleRegion;

using Numbers = std::vector<std::uint32_t>;

hicache_code store_code(Rig& rig) {
  const SamplePages pages(1);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;
  return hicache_store(rig.client, &op, pages.pages.data(), 1, &op_id);
}

TEST_CASE("a registered region reaches the daemon with its memory and its layouts") {
  Rig rig;

  const RegionRequest request = rig.daemon->region_request(3);
  const UniqueFd fd = rig.daemon->region_fd(3);

  CHECK(request.region_kind == static_cast<std::uint16_t>(RegionKind::host));
  CHECK(request.layout_count == 2);
  CHECK(request.offset_bytes == 4096);
  CHECK(request.size_bytes == rig.region.region.size_bytes);
  CHECK(request.rows == test::kRows);
  struct stat ours {};
  struct stat theirs {};
  REQUIRE(::fstat(rig.region.memory.get(), &ours) == 0);
  REQUIRE(::fstat(fd.get(), &theirs) == 0);
  CHECK(ours.st_ino == theirs.st_ino);
}

TEST_CASE("unregistering frees the number once the daemon has answered") {
  Rig rig;

  REQUIRE(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_OK);

  CHECK(rig.daemon->regions().empty());
  CHECK(store_code(rig) == HICACHE_BAD_ARGUMENT);
  CHECK(hicache_register_region(rig.client, &rig.region.region, test::kCallMs) == HICACHE_OK);
  CHECK(store_code(rig) == HICACHE_OK);
}

TEST_CASE("a region that the daemon refuses is not registered, and its line is kept") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) {
    o.call_code = Code::no_space;
    o.refusal = "too many mappings";
  });
  SampleRegion sample;
  sample.region.region = 5;

  CHECK(hicache_register_region(rig.client, &sample.region, test::kCallMs) == HICACHE_NO_SPACE);
  CHECK(std::string(hicache_last_error()) == "too many mappings");

  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::ok; });
  CHECK(hicache_register_region(rig.client, &sample.region, test::kCallMs) == HICACHE_OK);
}

TEST_CASE("a region that the daemon will not let go of stays registered") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::busy; });

  CHECK(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_BUSY);

  CHECK(store_code(rig) == HICACHE_OK);
}

TEST_CASE("a registration whose caller has left is taken back when it is answered") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });
  SampleRegion sample;
  sample.region.region = 5;

  CHECK(hicache_register_region(rig.client, &sample.region, 1) == HICACHE_TIMED_OUT);
  CHECK(hicache_register_region(rig.client, &sample.region, 1) == HICACHE_BUSY);
  CHECK(hicache_unregister_region(rig.client, 5, 1) == HICACHE_BUSY);
  rig.daemon->await_held(1);
  rig.daemon->answer_held();

  hicache_code code = HICACHE_BUSY;
  while (code == HICACHE_BUSY) {
    std::this_thread::yield();
    code = hicache_register_region(rig.client, &sample.region, test::kCallMs);
  }
  CHECK(code == HICACHE_OK);
  CHECK(rig.daemon->regions() == Numbers{3, 5});
}

TEST_CASE("a second unregister joins the first one that timed out") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });

  CHECK(hicache_unregister_region(rig.client, 3, 1) == HICACHE_TIMED_OUT);
  CHECK(store_code(rig) == HICACHE_BAD_ARGUMENT);
  rig.daemon->await_held(1);
  rig.daemon->answer_held();

  const hicache_code again = hicache_unregister_region(rig.client, 3, test::kCallMs);
  // Settled already, or joined: free either way.
  CHECK((again == HICACHE_OK || again == HICACHE_BAD_ARGUMENT));
  CHECK(rig.daemon->regions().empty());
}

TEST_CASE("stats carry the daemon's numbers") {
  Rig rig;
  hicache_stats stats{};
  stats.struct_bytes = sizeof stats;

  REQUIRE(hicache_get_stats(rig.client, &stats, test::kCallMs) == HICACHE_OK);

  CHECK(stats.pages == 11);
  CHECK(stats.commits == 22);
}

TEST_CASE("a call that is not answered times out and its late answer disturbs nobody") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });
  hicache_stats stats{};
  stats.struct_bytes = sizeof stats;

  CHECK(hicache_get_stats(rig.client, &stats, 1) == HICACHE_TIMED_OUT);
  CHECK(stats.pages == 0);
  rig.daemon->await_held(1);
  rig.daemon->answer_held();

  CHECK(hicache_get_stats(rig.client, &stats, test::kCallMs) == HICACHE_OK);
  CHECK(stats.pages == 11);
}

TEST_CASE("a space switch reads the new table, ends leases and holds for later attaches") {
  Rig rig;
  const SamplePages pages(1, 0);
  rig.daemon->put_status(pages.hash(0), {0, 2, 0, 0});
  hicache_prefix prefix{};
  REQUIRE(hicache_exists_prefix(rig.client, pages.pages.data(), 1, &prefix) == HICACHE_OK);
  CHECK(prefix.usable_pages == 1);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;
  const auto reload = [&](std::uint64_t lease) {
    REQUIRE(hicache_reload(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
    CompletionEntry granted = FakeDaemon::answer(rig.daemon->next_request(), Code::ok, Ack::done);
    granted.lease = lease;
    rig.daemon->complete(granted);
  };
  reload(76);
  const std::uint64_t lease = rig.next().lease;
  hicache_view view{};
  REQUIRE(hicache_lease_view(rig.client, lease, 0, 0, &view) == HICACHE_OK);
  reload(77);

  REQUIRE(hicache_space_switch(rig.client, "v2", test::kCallMs) == HICACHE_OK);

  REQUIRE(hicache_exists_prefix(rig.client, pages.pages.data(), 1, &prefix) == HICACHE_OK);
  CHECK(prefix.usable_pages == 0);
  rig.daemon->put_status(pages.hash(0), {0, 2, 0, 0});
  REQUIRE(hicache_exists_prefix(rig.client, pages.pages.data(), 1, &prefix) == HICACHE_OK);
  CHECK(prefix.usable_pages == 1);
  const hicache_completion done = rig.next();
  CHECK(done.op_id == op_id);
  CHECK(done.lease == 0);  // Granted before the switch, released by it.
  CHECK(hicache_lease_view(rig.client, lease, 0, 0, &view) == HICACHE_NOT_FOUND);

  rig.daemon->crash();
  rig.daemon->await_attach(2);
  CHECK(rig.daemon->space().weight_version == "v2");
}

TEST_CASE("a refused space switch leaves everything as it was") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::no_space; });

  CHECK(hicache_space_switch(rig.client, "v2", test::kCallMs) == HICACHE_NO_SPACE);

  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::ok; });
  CHECK(store_code(rig) == HICACHE_OK);
  rig.daemon->crash();
  rig.daemon->become_new_instance();
  rig.daemon->await_attach(2);
  CHECK(rig.daemon->space().weight_version == "v1");
}

TEST_CASE("while a space switch is not confirmed data calls are busy and a repeat joins it") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });
  const SamplePages pages(1);
  hicache_prefix prefix{};

  CHECK(hicache_space_switch(rig.client, "v2", 1) == HICACHE_TIMED_OUT);
  CHECK(store_code(rig) == HICACHE_BUSY);
  CHECK(std::string(hicache_last_error()).find("'v2' is not confirmed") != std::string::npos);
  CHECK(hicache_exists_prefix(rig.client, pages.pages.data(), 1, &prefix) == HICACHE_BUSY);
  CHECK(hicache_space_switch(rig.client, "v3", 1) == HICACHE_BUSY);
  rig.daemon->await_held(1);
  rig.daemon->answer_held();

  CHECK(hicache_space_switch(rig.client, "v2", test::kCallMs) == HICACHE_OK);
  CHECK(store_code(rig) == HICACHE_OK);
  CHECK(rig.daemon->space().weight_version == "v2");
}

TEST_CASE("a space switch that the daemon took to its grave keeps data calls busy") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });
  CHECK(hicache_space_switch(rig.client, "v2", 1) == HICACHE_TIMED_OUT);
  rig.daemon->await_held(1);

  // The region could not be registered again if calls went unanswered.
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = true; });
  rig.daemon->crash();
  rig.daemon->await_attach(2);
  rig.await_state(HICACHE_OK);

  CHECK(rig.daemon->space().weight_version == "v1");
  CHECK(store_code(rig) == HICACHE_BUSY);
  CHECK(hicache_space_switch(rig.client, "v2", test::kCallMs) == HICACHE_OK);
  CHECK(store_code(rig) == HICACHE_OK);
}

TEST_CASE("a refused repeat of an unconfirmed space switch keeps data calls busy") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });
  REQUIRE(hicache_space_switch(rig.client, "v2", 1) == HICACHE_TIMED_OUT);
  rig.daemon->await_held(1);
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = true; });
  rig.daemon->crash();
  rig.daemon->await_attach(2);
  rig.await_state(HICACHE_OK);

  for (const char* const version : {"v2", "v3"}) {
    rig.daemon->set([](FakeOptions& o) { o.call_code = Code::no_space; });
    CHECK(hicache_space_switch(rig.client, version, test::kCallMs) == HICACHE_NO_SPACE);
    CHECK(store_code(rig) == HICACHE_BUSY);
    CHECK(std::string(hicache_last_error()).find("'v2' is not confirmed") != std::string::npos);
  }

  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::ok; });
  CHECK(hicache_space_switch(rig.client, "v2", test::kCallMs) == HICACHE_OK);
  CHECK(store_code(rig) == HICACHE_OK);
}

// Calls until the daemon, which reads nothing, has let its socket fill.
void fill_socket(Rig& rig) {
  rig.daemon->set([](FakeOptions& o) { o.read_calls = false; });
  hicache_stats stats{};
  stats.struct_bytes = sizeof stats;
  do {
    REQUIRE(hicache_get_stats(rig.client, &stats, 1) == HICACHE_TIMED_OUT);
  } while (std::string(hicache_last_error()) != "the daemon does not read its socket");
}

TEST_CASE("who joined a space switch that could not be sent is told so") {
  Rig rig;
  fill_socket(rig);
  hicache_code first = HICACHE_PROTOCOL;
  hicache_code second = HICACHE_PROTOCOL;
  std::string line;
  Caller sender([&] { first = hicache_space_switch(rig.client, "v2", 200); });
  sender.await_asleep();
  Caller joiner([&] {
    second = hicache_space_switch(rig.client, "v2", test::kCallMs);
    line = hicache_last_error();
  });

  sender.join();
  joiner.join();

  CHECK(first == HICACHE_TIMED_OUT);
  CHECK(second == HICACHE_TIMED_OUT);
  CHECK(line == "the daemon does not read its socket");
  rig.daemon->set([](FakeOptions& o) { o.read_calls = true; });
  CHECK(store_code(rig) == HICACHE_OK);
}

TEST_CASE("who joined an unregister that could not be sent may try again") {
  Rig rig;
  fill_socket(rig);
  hicache_code first = HICACHE_PROTOCOL;
  hicache_code second = HICACHE_PROTOCOL;
  Caller sender([&] { first = hicache_unregister_region(rig.client, 3, 200); });
  sender.await_asleep();
  Caller joiner([&] { second = hicache_unregister_region(rig.client, 3, test::kCallMs); });
  joiner.await_asleep();

  sender.join();
  CHECK(first == HICACHE_TIMED_OUT);
  rig.daemon->set([](FakeOptions& o) { o.read_calls = true; });
  joiner.join();

  // Joined in time, or too late and then its own call.
  CHECK((second == HICACHE_BUSY || second == HICACHE_OK));
}

}  // namespace
}  // namespace hc
