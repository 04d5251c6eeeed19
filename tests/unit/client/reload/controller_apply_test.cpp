// SPDX-License-Identifier: Apache-2.0
// controller_apply_test: stores that settle, daemons that come anew, kinds of which only the last
// pages count, and what comes too late for a tick. About controller_apply.cpp.
#include "client/reload/controller.h"

#include "unit/client/reload/reload_bench.h"

namespace hc {
namespace {

std::uint64_t begin_store(ReloadBench& bench, const BenchPath& path, std::uint32_t first) {
  std::optional<std::uint64_t> out;
  bench.each([&](BenchRank& at) { out = at.controller.begin_store(path.run(), first); });
  REQUIRE(out);
  return *out;
}

TEST_CASE("stored pages are in L2 when they are settled on all ranks") {
  ReloadBench bench(2);
  const BenchPath path = bench_path(1, 4);
  bench.each([&](BenchRank& at) { REQUIRE(at.tree.fill_l1(path.run())); });
  const std::uint64_t store = begin_store(bench, path, 1);
  REQUIRE(bench.rank(0).controller.store_ended(store, true, 7));
  CHECK(bench.tick().stores.empty());
  REQUIRE(bench.rank(1).controller.store_ended(store, true, 8));

  const ReloadDecisions& decisions = bench.tick();

  REQUIRE(decisions.stores.size() == 1);
  CHECK(decisions.stores[0].durable);
  bench.each([&](BenchRank& at) {
    CHECK(at.tree.grant_count() == 1);
    CHECK(at.tree.evict_l1(3) == 3);
    CHECK(at.quota.used()[0] == 3);
  });
}

TEST_CASE("a store that failed on one rank is durable nowhere, and those after it wait a tick") {
  ReloadBench bench(2);
  const BenchPath one = bench_path(1, 2);
  const BenchPath two = bench_path(2, 2);
  const BenchPath three = bench_path(3, 2);
  for (const BenchPath* const path : {&one, &two, &three}) {
    bench.each([&](BenchRank& at) { REQUIRE(at.tree.fill_l1(path->run())); });
  }
  const std::uint64_t first = begin_store(bench, one, 0);
  const std::uint64_t second = begin_store(bench, two, 0);
  const std::uint64_t third = begin_store(bench, three, 0);
  for (const std::uint64_t store : {first, second, third}) {
    REQUIRE(bench.rank(0).controller.store_ended(store, true, store));
    REQUIRE(bench.rank(1).controller.store_ended(store, store != second, store));
  }

  const ReloadDecisions& decisions = bench.tick();

  REQUIRE(decisions.stores.size() == 2);
  CHECK(decisions.stores[0].durable);
  CHECK_FALSE(decisions.stores[1].durable);
  CHECK(bench.rank(0).decisions.releases == std::vector<LeaseHandle>{second});
  REQUIRE(bench.tick().stores.size() == 1);
  bench.each([](BenchRank& at) { CHECK(at.quota.used()[0] == 4); });
}

TEST_CASE("a store whose lease went with its daemon before all had settled is in L2 nowhere") {
  ReloadBench bench(2);
  const BenchPath path = bench_path(1, 3);
  bench.each([&](BenchRank& at) { REQUIRE(at.tree.fill_l1(path.run())); });
  const std::uint64_t store = begin_store(bench, path, 0);
  REQUIRE(bench.rank(0).controller.store_ended(store, true, 7));
  bench.rank(0).controller.daemon_lost();
  bench.rank(0).controller.daemon_came_anew();
  REQUIRE(bench.rank(1).controller.store_ended(store, true, 8));

  const ReloadDecisions& decisions = bench.tick();

  REQUIRE(decisions.stores.size() == 1);
  CHECK_FALSE(decisions.stores[0].durable);
  bench.each([](BenchRank& at) { CHECK(at.tree.grant_count() == 0); });
}

TEST_CASE("a reload that starts waits for the room of one that is admitted in the same tick") {
  ReloadBench bench(2, 4);
  const BenchPath one = bench_path(1, 3);
  bench.land_all(bench.start(1, one));
  REQUIRE(bench.offer(2, bench_path(2, 3)) == Decline::none);
  bench.find_all(3);

  const ReloadDecisions& decisions = bench.tick();

  REQUIRE(decisions.admits.size() == 1);
  CHECK(decisions.starts.empty());
  CHECK(decisions.recomputes.empty());
  bench.each([&](BenchRank& at) { CHECK(at.tree.match(one.hashes).l2_pages == 3); });
  bench.find_all(3);
  SECTION("nobody locks it: it goes in the next one") {
    CHECK(bench.tick().starts.size() == 1);
    bench.each([&](BenchRank& at) { CHECK(at.tree.match(one.hashes).l2_pages == 0); });
  }
  SECTION("it is in use: there is no room") {
    bench.each([&](BenchRank& at) { at.tree.lock(at.tree.match(one.hashes).anchor); });
    const ReloadDecisions& next = bench.tick();
    REQUIRE(next.recomputes.size() == 1);
    CHECK(next.recomputes[0].reason == Recompute::no_room);
  }
}

TEST_CASE("a reload that starts waits for room one tick, not as long as others are admitted") {
  ReloadBench bench(2, 4);
  const BenchPath one = bench_path(1, 1);
  const ReloadOpId first = bench.start(1, one);
  const ReloadOpId second = bench.start(2, bench_path(2, 1));
  bench.land_all(first);
  REQUIRE(bench.offer(3, bench_path(3, 4)) == Decline::none);
  bench.find_all(4);
  REQUIRE(bench.tick().admits.size() == 1);
  bench.each([&](BenchRank& at) { at.tree.lock(at.tree.match(one.hashes).anchor); });  // it runs
  bench.land_all(second);
  bench.find_all(4);

  const ReloadDecisions& next = bench.tick();

  CHECK(next.admits.size() == 1);
  REQUIRE(next.recomputes.size() == 1);
  CHECK(next.recomputes[0].reason == Recompute::no_room);
}

TEST_CASE("unsettled stores alone reduce every sixteenth pass") {
  ReloadBench bench(2);
  const BenchPath path = bench_path(1, 2);
  bench.each([&](BenchRank& at) { REQUIRE(at.tree.fill_l1(path.run())); });
  begin_store(bench, path, 0);
  int reduces = 0;
  for (int pass = 0; pass < 64; ++pass) {
    reduces += bench.rank(0).controller.needs_tick() ? 1 : 0;
  }
  CHECK(reduces == 4);
}

TEST_CASE("when a daemon has come anew all ranks let go of L2 in the same tick") {
  ReloadBench bench(2);
  const BenchPath path = bench_path(1, 3);
  bench.land_all(bench.start(1, path));
  REQUIRE(bench.tick().admits.size() == 1);
  const ReloadOpId op = bench.start(2, bench_path(2, 3));
  REQUIRE(bench.land(0, op));
  bench.rank(0).controller.daemon_lost();
  bench.rank(0).controller.daemon_came_anew();
  REQUIRE(bench.land(1, op));

  const ReloadDecisions& decisions = bench.tick();

  CHECK(decisions.l2_dropped);
  REQUIRE(decisions.recomputes.size() == 1);
  CHECK(decisions.recomputes[0].reason == Recompute::failed);
  bench.each([&](BenchRank& at) {
    CHECK(at.tree.node_count() == 0);
    CHECK(at.decisions.releases.size() == 2);
  });
  bench.tick();
  bench.each([](BenchRank& at) { CHECK(at.quota.used()[0] == 0); });
}

TEST_CASE("a daemon that comes anew is seen although another rank has seen more of them") {
  ReloadBench bench(2);
  for (int times = 0; times < 3; ++times) {
    bench.rank(0).controller.daemon_came_anew();
    REQUIRE(bench.offer(static_cast<std::uint64_t>(10 + times), bench_path(9, 1)) ==
            Decline::none);
    CHECK(bench.tick().l2_dropped);
  }
  bench.land_all(bench.start(1, bench_path(1, 3)));
  REQUIRE(bench.tick().admits.size() == 1);
  bench.rank(1).controller.daemon_came_anew();
  REQUIRE(bench.offer(2, bench_path(2, 1)) == Decline::none);
  CHECK(bench.tick().l2_dropped);
}

TEST_CASE("a count of trailing kinds is agreed when two rounds give the same") {
  ControllerOptions options;
  options.trailing_kinds = true;
  ReloadBench bench(2, 16, options);
  REQUIRE(bench.offer(1, bench_path(1, 8)) == Decline::none);

  SECTION("then it is reloaded") {
    bench.find(0, 8);
    bench.find(1, 5);
    CHECK(bench.tick().starts.empty());
    CHECK(bench.rank(0).controller.candidates()[0].limit == 5);
    bench.find(0, 4);  // of five, only four are usable there
    bench.find(1, 5);
    CHECK(bench.tick().starts.empty());
    bench.find_all(4);
    const ReloadDecisions& decisions = bench.tick();
    REQUIRE(decisions.starts.size() == 1);
    CHECK(decisions.starts[0].suffix.hashes.size() == 4);
  }
  SECTION("and given up after four") {
    for (std::uint32_t pages = 8; pages > 5; --pages) {
      bench.find_all(pages);
      CHECK(bench.tick().recomputes.empty());
    }
    bench.find_all(5);
    const ReloadDecisions& decisions = bench.tick();
    REQUIRE(decisions.recomputes.size() == 1);
    CHECK(decisions.recomputes[0].reason == Recompute::unsteady);
  }
}

TEST_CASE("what comes between encode and apply waits for the next tick") {
  ReloadBench bench(2);
  const ReloadOpId op = bench.start(1, bench_path(1, 3));
  REQUIRE(bench.land(0, op));
  const AgreementVector reduced = bench.encode();
  CHECK(bench.encode() == reduced);  // computed once
  REQUIRE(bench.land(1, op));
  REQUIRE(bench.offer(2, bench_path(2, 2)) == Decline::none);
  CHECK(bench.rank(0).controller.candidates().empty());

  CHECK(bench.apply(reduced).admits.empty());

  CHECK(bench.rank(0).controller.candidates().size() == 1);
  bench.find_all(2);
  const ReloadDecisions& decisions = bench.tick();
  CHECK(decisions.admits.size() == 1);
  CHECK(decisions.starts.size() == 1);
}

TEST_CASE("candidate 65 waits for a place in the vector") {
  ControllerOptions options;
  options.ops_max = 64;
  ReloadBench bench(2, 200, options);
  for (std::uint64_t request = 1; request <= 66; ++request) {
    REQUIRE(bench.offer(request, bench_path(request, 1)) == Decline::none);
  }
  bench.find_all(1);
  CHECK(bench.tick().starts.size() == 64);
  CHECK(bench.rank(0).controller.candidates().size() == 2);
}

TEST_CASE("a collective that failed drops everything, on each rank by itself") {
  ReloadBench bench(2);
  const ReloadOpId op = bench.start(1, bench_path(1, 3));
  REQUIRE(bench.land(0, op));
  bench.encode();
  bench.each([](BenchRank& at) {
    at.controller.abandon(at.decisions);
    REQUIRE(at.decisions.recomputes.size() == 1);
    CHECK(at.decisions.recomputes[0].reason == Recompute::diverged);
    CHECK(at.quota.used()[0] == 0);
  });
  CHECK_FALSE(bench.land(1, op));
  bench.land_all(bench.start(2, bench_path(2, 3)));
  CHECK(bench.tick().admits.size() == 1);
}

TEST_CASE("offers are declined with a reason") {
  ControllerOptions options;
  options.pages_min = 2;
  options.waiting_max = 1;
  ReloadBench bench(1, 4, options);
  BenchPath none = bench_path(1, 1);
  CHECK(bench.offer(1, none) == Decline::too_short);
  REQUIRE(bench.offer(2, bench_path(2, 3)) == Decline::none);
  CHECK(bench.offer(2, bench_path(3, 3)) == Decline::duplicate);
  CHECK(bench.offer(4, bench_path(4, 3)) == Decline::full);
  Suffix empty;
  CHECK(bench.rank(0).controller.offer(RequestId{5}, empty) == Decline::empty);
  const auto& declined = bench.rank(0).controller.counters().declined;
  CHECK(declined[static_cast<std::size_t>(Decline::full)] == 1);
}

}  // namespace
}  // namespace hc
