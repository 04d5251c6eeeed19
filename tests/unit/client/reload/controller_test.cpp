// SPDX-License-Identifier: Apache-2.0
// controller_test: what a group decides about reloads, one test for each requirement R1 to R12.
#include "client/reload/controller.h"

#include <random>

#include "unit/client/reload/reload_bench.h"

namespace hc {
namespace {

std::vector<PageHash> hashes_of(const std::optional<PageHash>& prior,
                                const std::vector<std::uint64_t>& tokens, bool bigram,
                                std::uint32_t page_tokens) {
  std::vector<PageHash> out;
  REQUIRE(hash_pages(prior, std::span<const std::uint64_t>(tokens), {page_tokens, bigram, false},
                     out));
  return out;
}

TEST_CASE("R1: a suffix hashed from any anchor is the chain that a store wrote from the root") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    const bool bigram = round % 2 == 1;
    const std::uint32_t page_tokens = 1 + static_cast<std::uint32_t>(random() % 5);
    std::vector<std::uint64_t> tokens(page_tokens * (1 + random() % 9) + (bigram ? 1 : 0));
    for (std::uint64_t& token : tokens) {
      token = random() % 100'000;
    }
    const auto whole = hashes_of(std::nullopt, tokens, bigram, page_tokens);
    for (std::size_t anchor = 1; anchor < whole.size(); ++anchor) {
      const std::vector<std::uint64_t> rest(
          tokens.begin() + static_cast<std::ptrdiff_t>(anchor * page_tokens), tokens.end());
      const auto suffix = hashes_of(whole[anchor - 1], rest, bigram, page_tokens);
      REQUIRE(suffix.size() == whole.size() - anchor);
      CHECK(std::equal(suffix.begin(), suffix.end(),
                       whole.begin() + static_cast<std::ptrdiff_t>(anchor)));
    }
  }
}

TEST_CASE("R2: with nothing open no tick reduces, and the agreed count is the ranks' minimum") {
  ReloadBench bench(3);
  bench.each([](BenchRank& at) { CHECK_FALSE(at.controller.needs_tick()); });
  const BenchPath path = bench_path(1, 6);
  REQUIRE(bench.offer(1, path) == Decline::none);
  bench.each([](BenchRank& at) { CHECK(at.controller.needs_tick()); });
  bench.find(0, 6);
  bench.find(1, 4);
  bench.find(2, 5);

  const ReloadDecisions& decisions = bench.tick();

  REQUIRE(decisions.starts.size() == 1);
  CHECK(decisions.starts[0].suffix.hashes.size() == 4);
  bench.each([](BenchRank& at) { CHECK(at.controller.counters().reduces == 1); });
}

TEST_CASE("R3: room is made alike on all ranks, for the whole operation or not at all") {
  ReloadBench bench(2, 8);
  const BenchPath first = bench_path(1, 5);
  bench.land_all(bench.start(1, first));
  REQUIRE(bench.tick().admits.size() == 1);

  SECTION("the oldest nodes go, and their leases are given back") {
    const ReloadOpId op = bench.start(2, bench_path(2, 6));
    bench.each([&](BenchRank& at) {
      CHECK(at.decisions.releases.size() == 1);
      CHECK(at.tree.match(first.hashes).pages() == 0);
      CHECK(at.quota.used()[0] == 6);
    });
    bench.land_all(op);
    CHECK(bench.tick().admits.size() == 1);
  }
  SECTION("what is locked stays, and the request recomputes") {
    bench.each([&](BenchRank& at) { at.tree.lock(at.tree.match(first.hashes).anchor); });
    REQUIRE(bench.offer(2, bench_path(2, 6)) == Decline::none);
    bench.find_all(6);
    const ReloadDecisions& decisions = bench.tick();
    REQUIRE(decisions.recomputes.size() == 1);
    CHECK(decisions.recomputes[0].reason == Recompute::no_room);
    bench.each([&](BenchRank& at) { CHECK(at.quota.used()[0] == 5); });
  }
}

TEST_CASE("R3: of an owned kind every owner must have room") {
  ReloadBench bench(2, 2, {}, 2);
  const BenchPath path = bench_path(1, 6, 2);
  REQUIRE(bench.offer(1, path) == Decline::none);
  bench.find_all(6);
  const ReloadDecisions& decisions = bench.tick();
  REQUIRE(decisions.starts.size() == 1);
  CHECK(decisions.starts[0].suffix.hashes.size() == 4);  // two pages of each owner
}

TEST_CASE("R4: a request is admitted in the tick of the last landing, whoever came before it") {
  ReloadBench bench(2);
  const ReloadOpId slow = bench.start(1, bench_path(1, 3));
  const ReloadOpId fast = bench.start(2, bench_path(2, 3));
  CHECK(bench.land(0, fast));
  CHECK(bench.tick().admits.empty());
  CHECK(bench.land(1, fast));

  const ReloadDecisions& decisions = bench.tick();

  REQUIRE(decisions.admits.size() == 1);
  CHECK(decisions.admits[0].request == RequestId{2});
  CHECK(bench.rank(0).controller.is_reading(slow));
}

TEST_CASE("R5: pages are inserted only behind an anchor that is still clean") {
  ReloadBench bench(2);
  const BenchPath path = bench_path(1, 5);
  const PageRun head{std::span(path.hashes).first(2), std::span(path.owners).first(2)};
  bench.each([&](BenchRank& at) { REQUIRE(at.tree.fill_l1(head)); });

  SECTION("the anchor was evicted") {
    const ReloadOpId op = bench.start(1, path);
    bench.each([](BenchRank& at) { CHECK(at.tree.evict_l1(2) == 2); });
    bench.land_all(op);
  }
  SECTION("the first page came there another way") {
    const ReloadOpId op = bench.start(1, path);
    bench.each([&](BenchRank& at) { REQUIRE(at.tree.fill_l1(path.run())); });
    bench.land_all(op);
  }
  const ReloadDecisions& decisions = bench.tick();
  REQUIRE(decisions.recomputes.size() == 1);
  CHECK(decisions.recomputes[0].reason == Recompute::anchor);
  bench.each([](BenchRank& at) {
    CHECK(at.decisions.releases.size() == 1);
    CHECK(at.quota.used()[0] == 0);
  });
}

TEST_CASE("R5: a first page whose hash does not follow from the live anchor is declined") {
  ReloadBench bench(2);
  const BenchPath path = bench_path(1, 5);
  Suffix suffix = bench.suffix(path, 0, bench.rank(0).tree.root());
  suffix.first_tokens = {77};
  CHECK(bench.rank(0).controller.offer(RequestId{1}, suffix) == Decline::anchor);
}

TEST_CASE("R6: what was admitted is an ordinary L2 node, with a place to load it from") {
  ReloadBench bench(2);
  const BenchPath path = bench_path(1, 5);
  bench.land_all(bench.start(1, path));
  REQUIRE(bench.tick().admits.size() == 1);
  bench.each([&](BenchRank& at) {
    const PrefixMatch match = at.tree.match(path.hashes);
    CHECK(match.l1_pages == 0);
    CHECK(match.l2_pages == 5);
    std::vector<PrefixTree::Place> places;
    at.tree.places_in_l2(match.anchor, places);
    REQUIRE(places.size() == 5);
    CHECK(places[3].page == 3);
    CHECK(places[3].lease != kNoLeaseHandle);
  });
}

TEST_CASE("R7: operations are capped, and one reload serves all who want the same pages") {
  ControllerOptions options;
  options.ops_max = 1;
  ReloadBench bench(2, 16, options);
  const BenchPath path = bench_path(1, 3);
  const ReloadOpId op = bench.start(1, path);
  REQUIRE(bench.offer(2, path) == Decline::none);
  CHECK(bench.rank(0).controller.counters().piggybacked == 1);
  REQUIRE(bench.offer(3, bench_path(2, 3)) == Decline::none);
  bench.find_all(3);
  CHECK(bench.tick().starts.empty());  // the cap
  bench.land_all(op);
  bench.find_all(3);

  const ReloadDecisions& decisions = bench.tick();

  REQUIRE(decisions.admits.size() == 2);
  CHECK(decisions.admits[1].request == RequestId{2});
  CHECK(decisions.starts.size() == 1);
  CHECK(bench.offer(3, bench_path(2, 3)) == Decline::duplicate);
}

TEST_CASE("R8: a reload that nobody waits for is given back, not inserted") {
  ReloadBench bench(2);
  const BenchPath path = bench_path(1, 3);
  const ReloadOpId op = bench.start(1, path);
  CHECK(bench.land(0, op));
  bench.release(1);
  bench.tick();
  CHECK(bench.rank(0).decisions.releases.size() == 1);
  REQUIRE(bench.rank(1).decisions.cancels.size() == 1);
  bench.each([](BenchRank& at) { CHECK(at.quota.used()[0] == 3); });  // it drains
  CHECK_FALSE(bench.land(1, op));

  bench.tick();

  bench.each([&](BenchRank& at) {
    CHECK(at.quota.used()[0] == 0);
    CHECK(at.tree.node_count() == 0);
    CHECK_FALSE(at.controller.needs_tick());
  });
}

TEST_CASE("R8: who leaves while the vector is reduced hears of nothing any more") {
  ReloadBench bench(2);
  const ReloadOpId op = bench.start(1, bench_path(1, 3));
  bench.land_all(op);
  const AgreementVector reduced = bench.encode();
  bench.release(1);
  const ReloadDecisions& decisions = bench.apply(reduced);
  CHECK(decisions.admits.empty());
  CHECK(decisions.releases.size() == 1);
}

TEST_CASE("R9: one rank's deadline releases the request everywhere; the late end frees the pages") {
  ControllerOptions options;
  options.ttl_ms = 50;
  ReloadBench bench(2, 16, options);
  const ReloadOpId op = bench.start(1, bench_path(1, 3));
  bench.tick();
  bench.now_ms += 50;
  CHECK(bench.land(0, op));  // in time here, not there

  const ReloadDecisions& decisions = bench.tick();

  REQUIRE(decisions.recomputes.size() == 1);
  CHECK(decisions.recomputes[0].reason == Recompute::expired);
  bench.each([](BenchRank& at) { CHECK(at.quota.used()[0] == 3); });
  bench.tick();
  CHECK_FALSE(bench.land(1, op));
  bench.tick();
  bench.each([](BenchRank& at) { CHECK(at.quota.used()[0] == 0); });
}

TEST_CASE("R10: a rank that has seen something else is noticed in the same tick") {
  ReloadBench bench(3);
  const ReloadOpId op = bench.start(1, bench_path(1, 3));
  const BenchPath other = bench_path(9, 2);
  BenchRank& strange = bench.rank(1);
  REQUIRE(strange.controller.offer(RequestId{9},
                                   bench.suffix(other, 0, strange.tree.root())) == Decline::none);
  bench.land_all(op);

  bench.tick();

  bench.each([](BenchRank& at) {
    CHECK(at.decisions.diverged);
    CHECK(at.decisions.admits.empty());
    CHECK(at.decisions.releases.size() == 1);
    CHECK(at.controller.epoch() == 2);
    CHECK_FALSE(at.controller.needs_tick());
  });
  bench.land_all(bench.start(2, bench_path(2, 3)));  // and the group works again
  CHECK(bench.tick().admits.size() == 1);
}

TEST_CASE("R11: the vector has one shape, whatever a rank has to say") {
  ReloadBench bench(2);
  const AgreementVector idle = bench.rank(0).controller.encode(0);
  static_assert(sizeof idle.words == sizeof(std::int64_t) * (16 + 64 + 64));
  CHECK(idle.counts().size() == kAgreedCandidatesMax);
  CHECK(idle.counts()[0] == AgreementVector::kUnused);
  CHECK(idle.states()[63] == AgreementVector::kUnused);
}

TEST_CASE("R12: a rank where recomputing is cheaper decides for all") {
  ReloadBench bench(3);
  REQUIRE(bench.offer(1, bench_path(1, 6)) == Decline::none);
  bench.find_all(6);
  bench.find(2, 0);
  const ReloadDecisions& decisions = bench.tick();
  CHECK(decisions.starts.empty());
  REQUIRE(decisions.recomputes.size() == 1);
  CHECK(decisions.recomputes[0].reason == Recompute::too_short);
}

}  // namespace
}  // namespace hc
