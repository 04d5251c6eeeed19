// SPDX-License-Identifier: Apache-2.0
// client_regions_test: regions whose registration or unregistration does not go well; also tests
// client/region_table.h.
#include <array>
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

hicache_code store_code(Rig& rig, std::uint32_t region = 3) {
  const SamplePages pages(1);
  hicache_op op = test::sample_op();
  op.region = region;
  std::uint64_t op_id = 0;
  return hicache_store(rig.client, &op, pages.pages.data(), 1, &op_id);
}

bool last_error_has(const char* part) {
  return std::string(hicache_last_error()).find(part) != std::string::npos;
}

TEST_CASE("a region let go of in the middle of a reattach is gone although the daemon refuses") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });
  rig.daemon->crash();
  rig.daemon->await_held(1);  // The registration of region 3.
  REQUIRE(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_OK);
  rig.daemon->set([](FakeOptions& o) { o.unregister_code = Code::busy; });

  rig.daemon->answer_held();
  rig.daemon->await_refused(1);

  hicache_code code = HICACHE_BUSY;
  while (code == HICACHE_BUSY) {  // Until the refusal has been taken.
    std::this_thread::yield();
    code = hicache_register_region(rig.client, &rig.region.region, test::kCallMs);
  }
  REQUIRE(code == HICACHE_OK);
  REQUIRE(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_BUSY);
  CHECK(store_code(rig) == HICACHE_OK);
}

TEST_CASE("a region that nobody has is neither named by an operation nor attached with again") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.answer_calls = false; });
  rig.daemon->crash();
  rig.daemon->await_held(1);
  REQUIRE(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_OK);
  rig.daemon->set([](FakeOptions& o) { o.unregister_code = Code::busy; });
  rig.daemon->answer_held();
  rig.daemon->await_refused(1);

  CHECK(store_code(rig) == HICACHE_BAD_ARGUMENT);

  rig.daemon->crash();
  rig.daemon->await_attach(3);
  rig.await_state(HICACHE_OK);
  CHECK(rig.daemon->regions().empty());
}

TEST_CASE("a region that the daemon refuses at a reattach fails alone, with the daemon's line") {
  const Code refusal = GENERATE(Code::bad_argument, Code::refused, Code::io_error, Code::no_space);
  Rig rig;
  rig.daemon->set([&](FakeOptions& o) {
    o.call_code = refusal;
    o.refusal = "region = 3: the file is not sealed";
  });

  rig.daemon->crash();
  rig.daemon->await_attach(2);
  rig.await_state(HICACHE_OK);

  CHECK(rig.daemon->attaches() == 2);
  CHECK(store_code(rig) == HICACHE_BAD_ARGUMENT);
  CHECK(last_error_has("op.region = 3: the daemon refused it"));
  CHECK(last_error_has("the file is not sealed"));
  CHECK(hicache_register_region(rig.client, &rig.region.region, test::kCallMs) ==
        HICACHE_BAD_ARGUMENT);

  CHECK(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_OK);
  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::ok; });
  CHECK(hicache_register_region(rig.client, &rig.region.region, test::kCallMs) == HICACHE_OK);
  CHECK(store_code(rig) == HICACHE_OK);
}

TEST_CASE("a region that failed comes back with the next daemon that takes it") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::bad_argument; });
  rig.daemon->crash();
  rig.daemon->await_attach(2);
  rig.await_state(HICACHE_OK);
  REQUIRE(store_code(rig) == HICACHE_BAD_ARGUMENT);

  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::ok; });
  rig.daemon->crash();
  rig.daemon->await_attach(3);
  rig.await_state(HICACHE_OK);

  CHECK(rig.daemon->regions() == Numbers{3});
  CHECK(store_code(rig) == HICACHE_OK);
}

TEST_CASE("a daemon that is busy for a region is attached to again until it takes it") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::busy; });
  rig.daemon->crash();
  rig.daemon->await_refused(2);
  CHECK(hicache_state(rig.client) == HICACHE_DISCONNECTED);

  rig.daemon->set([](FakeOptions& o) { o.call_code = Code::ok; });
  rig.await_state(HICACHE_OK);

  CHECK(rig.daemon->regions() == Numbers{3});
  CHECK(store_code(rig) == HICACHE_OK);
}

TEST_CASE("an unregister that joined another says so when the daemon refuses") {
  Rig rig;
  rig.daemon->set([](FakeOptions& o) {
    o.answer_calls = false;
    o.unregister_code = Code::io_error;
  });
  REQUIRE(hicache_unregister_region(rig.client, 3, 1) == HICACHE_TIMED_OUT);
  rig.daemon->await_held(1);
  hicache_code code = HICACHE_PROTOCOL;
  Caller joined([&] { code = hicache_unregister_region(rig.client, 3, test::kCallMs); });
  joined.await_asleep();

  rig.daemon->answer_held();
  joined.join();

  CHECK(code == HICACHE_BUSY);
  CHECK(store_code(rig) == HICACHE_OK);
}

// A registration whose caller has left, and that the daemon would not take back.
struct GivenUp {
  Rig rig;
  SampleRegion sample;

  GivenUp() {
    rig.daemon->set([](FakeOptions& o) {
      o.answer_calls = false;
      o.unregister_code = Code::io_error;
    });
    sample.region.region = 5;
    REQUIRE(hicache_register_region(rig.client, &sample.region, 1) == HICACHE_TIMED_OUT);
    rig.daemon->await_held(1);
    rig.daemon->answer_held();
    rig.daemon->await_refused(1);
  }
};

TEST_CASE("a region that was given up and could not be taken back is not registered again") {
  GivenUp given;

  CHECK(store_code(given.rig, 5) == HICACHE_BAD_ARGUMENT);
  given.rig.daemon->crash();
  given.rig.daemon->await_attach(2);
  given.rig.await_state(HICACHE_OK);

  CHECK(given.rig.daemon->regions() == Numbers{3});
  CHECK(hicache_register_region(given.rig.client, &given.sample.region, test::kCallMs) ==
        HICACHE_OK);
}

TEST_CASE("a region that was given up is asked back whenever its number is wanted") {
  GivenUp given;
  CHECK(hicache_register_region(given.rig.client, &given.sample.region, test::kCallMs) ==
        HICACHE_BUSY);

  given.rig.daemon->set([](FakeOptions& o) { o.unregister_code = Code::ok; });
  hicache_code code = HICACHE_BUSY;
  while (code == HICACHE_BUSY) {
    std::this_thread::yield();
    code = hicache_register_region(given.rig.client, &given.sample.region, test::kCallMs);
  }

  CHECK(code == HICACHE_OK);
  CHECK(store_code(given.rig, 5) == HICACHE_OK);
}

}  // namespace
}  // namespace hc
