// SPDX-License-Identifier: Apache-2.0
// clear_test: how the operator's clear ends, also badly, and what it leaves of spaces. Covers
// daemon/engine/engine_clear.cpp.
#include <cerrno>

#include "unit/daemon/engine/engine_bench.h"

namespace {

using namespace hc;
using hc::test::BenchRank;
using hc::test::EngineBench;

TEST_CASE("clear: a superblock that can't be written is tried at intervals, and the order told") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  bench.detach(rank);
  sim::FaultPlan plan;
  plan.write_error = 10'000;
  bench.disk.set_plan(plan);
  const Instant begun = bench.clock.time();
  const std::uint64_t before = bench.disk.submitted();

  REQUIRE(bench.engine->start_clear());
  const Result<void> ended = bench.finish_order();

  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == Code::io_error);
  CHECK(bench.engine->core().counters.superblock_failures == 5);
  CHECK(bench.disk.submitted() - before == 5);
  CHECK(bench.clock.time() - begun >= 4 * std::int64_t{50} * kNsPerMs);
  CHECK(bench.engine->clearing_store());
  CHECK(bench.engine->attach({hc::test::bench_space(), 0, 0}).error().code == Code::busy);

  bench.disk.set_plan({});
  bench.run_until([&] { return !bench.engine->clearing_store(); });
  rank = bench.attach(0);
  CHECK_FALSE(bench.is_there(rank, 1));
  bench.store(rank, {2});
}

// Else a crash takes the epoch back, the next clear gives its number anew, and what had been
// written under it comes back with the index lost.
TEST_CASE("clear: nothing is written under the new epoch of a space before that is durable") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  bench.allocate_all();  // nothing but the epoch is to be waited for
  bench.run_until([&] { return bench.engine->core().superblock->is_durable(); });
  const auto store_one = [&] {
    bench.fill(rank, 0, 2);
    const auto answer = bench.run(rank, {Verb::store, {2}, Ack::resident});
    CHECK(answer.entry.code == 0);
  };

  SECTION("the write waits") {
    bench.disk.hold_volume(0, true);
    REQUIRE(bench.engine->start_clear_space(rank.space));
    store_one();
    bench.run_for(10);
    CHECK(bench.part(2, 0).l3 == L3State::queued);
    bench.disk.hold_volume(0, false);
    CHECK(bench.finish_order());
    bench.run_until([&] { return bench.part(2, 0).l3 == L3State::durable; });
  }
  SECTION("not longer than a device may take to answer") {
    bench.disk.hold_volume(0, true);
    REQUIRE(bench.engine->start_clear_space(rank.space));
    bench.fill(rank, 0, 2);
    const Instant began = bench.clock.time();
    const auto answer = bench.run(rank, {Verb::store, {2}, Ack::durable});
    CHECK(answer.entry.code == static_cast<std::uint8_t>(Code::io_error));
    CHECK(bench.clock.time() - began <
          2 * std::int64_t{bench.options.io_timeout_ms} * kNsPerMs);
    bench.disk.hold_volume(0, false);
    bench.run_until([&] { return bench.engine->core().superblock->is_durable(); });
    bench.store(rank, {2});
  }
  SECTION("it fails where the superblock can't be written") {
    bench.disk.fail_volume(0, 0, EIO);
    REQUIRE(bench.engine->start_clear_space(rank.space));
    bench.run_for(10);
    store_one();
    bench.run_for(10);
    CHECK(bench.part(2, 0).l3 == L3State::absent);
    CHECK(bench.engine->core().counters.superblock_failures > 0);
    bench.disk.fail_volume(0, 0, 0);
    bench.run_until([&] { return bench.engine->core().superblock->is_durable(); });
    bench.store(rank, {3});
  }
  CHECK(bench.laws.count() == 0);
}

TEST_CASE("clear: an index that can't be reset is the order's error; a second clear repairs it") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  sim::FaultPlan plan;
  plan.index_reset_error = 10'000;
  bench.index.set_plan(plan);

  REQUIRE(bench.engine->start_clear());
  const Result<void> ended = bench.finish_order();

  REQUIRE_FALSE(ended);
  CHECK(ended.error().text == "index reset");
  CHECK(bench.engine->index_failed());
  CHECK_FALSE(bench.is_there(rank, 1));
  bench.index.set_plan({});
  REQUIRE(bench.engine->start_clear());
  CHECK(bench.finish_order());
  bench.store(rank, {2});
}

TEST_CASE("clear: the whole store takes over a clear of a space that can't go on") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  sim::FaultPlan plan;
  plan.commit_dead = 10'000;
  bench.index.set_plan(plan);
  REQUIRE(bench.engine->start_clear_space(rank.space));
  CHECK(bench.engine->start_clear_space(rank.space).error().code == Code::busy);
  bench.index.set_plan({});

  REQUIRE(bench.engine->start_clear());

  CHECK(bench.finish_order());
  CHECK_FALSE(bench.engine->index_failed());
  bench.store(rank, {2});
}

TEST_CASE("clear of a space: an index that takes nothing is the order's error") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  sim::FaultPlan plan;
  plan.commit_dead = 10'000;
  bench.index.set_plan(plan);

  REQUIRE(bench.engine->start_clear_space(rank.space));
  const Result<void> ended = bench.finish_order();

  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == Code::io_error);
  CHECK_FALSE(bench.is_there(rank, 1));
}

TEST_CASE("clear: the numbers of spaces that nobody uses go to others") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank first = bench.attach(0, "w1");
  BenchRank second = bench.attach(0, "w2");
  BenchRank third = bench.attach(0, "w3");
  bench.store(first, {1});
  bench.store(second, {1});
  bench.store(third, {1});
  bench.detach(second);
  const Superblock& superblock = bench.engine->core().superblock->current();
  REQUIRE(superblock.space_count == 3);

  REQUIRE(bench.engine->start_clear());
  REQUIRE(bench.finish_order());

  CHECK(bench.engine->core().spaces->find(second.space) == nullptr);
  const BenchRank fourth = bench.attach(0, "w4");
  CHECK(fourth.space == second.space);
  bench.store(third, {7});
  bench.restart();
  third = bench.attach(0, "w3");
  CHECK(bench.is_there(third, 7));
}

TEST_CASE("clear: an empty store without sessions knows no space any more") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  for (const char* weights : {"w1", "w2", "w3"}) {
    BenchRank rank = bench.attach(0, weights);
    bench.store(rank, {1});
    bench.detach(rank);
  }

  REQUIRE(bench.engine->start_clear());
  REQUIRE(bench.finish_order());

  CHECK_FALSE(bench.engine->core().spaces->bound());
  CHECK(bench.engine->core().superblock->current().space_count == 0);
  BenchRank rank = bench.attach(0, "w4");
  CHECK(rank.space == SpaceNo{0});
  bench.store(rank, {1});
}

TEST_CASE("clear of a space: its status table goes with its last session, comes back with one") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank kept = bench.attach(0, "w1");
  BenchRank other = bench.attach(0, "w2");
  const SpaceNo number = other.space;
  bench.store(other, {1});
  bench.detach(other);

  REQUIRE(bench.engine->start_clear_space(number));
  REQUIRE(bench.finish_order());

  CHECK(bench.engine->core().spaces->find(number) == nullptr);
  CHECK(bench.engine->core().spaces->find(kept.space) != nullptr);
  other = bench.attach(0, "w2");
  CHECK(other.space == number);
  CHECK_FALSE(bench.is_there(other, 1));
  bench.store(other, {2});
}

}  // namespace
