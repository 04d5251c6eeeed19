// SPDX-License-Identifier: Apache-2.0
// rebuild_flush_test: what a rebuild adopts is durable when it was flushed, and not before.
// daemon/engine/rebuild.cpp, daemon/engine/spiller.cpp, daemon/engine/group_commit_failure.cpp
#include "unit/daemon/engine/rebuild_bench.h"

namespace hc::test {

TEST_CASE("rebuild: nothing that was adopted becomes durable by a flush that has failed") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  lose_index(bench);
  rank = bench.attach(0);
  sim::FaultPlan plan;
  plan.sync_error = 10'000;
  bench.set_plan(plan);

  bench.run_until([&] { return bench.engine->core().counters.slots_adopted == 2; });
  bench.run_for(3000);  // the first flush that fails may be that of the notes alone
  REQUIRE(bench.engine->core().counters.commit_failures > 1);
  bench.set_plan({});
  bench.run_for(3000);

  CHECK(bench.page(1) == kNoPage);
  CHECK_FALSE(committed(bench, 1));
  CHECK_FALSE(committed(bench, 2));
  bench.store(rank, {1});
  CHECK(committed(bench, 1));
}

TEST_CASE("rebuild: what is found after the first flush of its slab has failed is not adopted") {
  EngineBench bench(200);
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.allocate_all();
  bench.store(rank, {1});
  // In a slot that is read late: something was written once in every step before it.
  const Blob nothing(kBlockBytes);
  const Slab& slab = bench.slab_of(0);
  for (std::uint32_t slot = 1; slot < 150; ++slot) {
    REQUIRE(bench.disk.write_now(slab.file(), slab.slot_offset(SlotId{slot}), nothing));
  }
  copy_blob(bench, 1, SlotId{150}, bench.part(1, 0).generation.value);
  REQUIRE(bench.disk.write_now(bench.slab_file(0), bench.slot_offset(1, 0), nothing));
  lose_index(bench);
  rank = bench.attach(0);
  bench.run_until([&] { return bench.engine->load_progress().slots_scanned > 20; });
  bench.disk.set_read_delay(5000 * kNsPerMs);
  sim::FaultPlan plan;
  plan.sync_error = 10'000;
  const auto fail_a_flush = [&](std::uint32_t number) {
    bench.disk.set_plan(plan);
    bench.fill(rank, 0, number);
    bench.run(rank, {.verb = Verb::store, .pages = {number}, .ack = Ack::resident});
    bench.run_until([&] { return bench.engine->core().counters.spills_repeated > 0; });
    bench.disk.set_plan({});
    bench.disk.set_read_delay(0);
    REQUIRE(bench.page(1) == kNoPage);
    run_until_rebuilt(bench);
  };

  SECTION("failed") {
    fail_a_flush(9);
    CHECK(bench.engine->core().counters.slots_adopted == 0);
    CHECK(bench.page(1) == kNoPage);
  }
  SECTION("done well, and a later one failed") {
    bench.store(rank, {9});
    fail_a_flush(10);
    CHECK(bench.engine->core().counters.slots_adopted == 1);
    CHECK(bench.load(rank, 1) == 1U);
  }
}

TEST_CASE("rebuild: nor is what was found before that failure, and waits for a store of its part") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.allocate_all();
  bench.store(rank, {1});
  lose_index(bench);
  rank = bench.attach(0);
  const auto store = [&](std::uint32_t number, std::uint32_t deadline_ms) {
    bench.fill(rank, 0, number);
    return bench.submit(rank, {.verb = Verb::store,
                               .pages = {number},
                               .ack = Ack::resident,
                               .deadline_ms = deadline_ms});
  };
  bench.copier.set_delay(2000 * kNsPerMs);
  const std::uint16_t slow = store(1, 1000);
  bench.run_until([&] { return bench.slab_of(0).unscanned_count() <= 1; });
  REQUIRE(bench.engine->rebuilding());  // for its blob
  bench.copier.set_delay(0);
  const bool is_flushed = GENERATE(true, false);
  sim::FaultPlan plan;
  plan.sync_error = is_flushed ? 0 : 10'000;

  bench.disk.set_plan(plan);
  CHECK(bench.finish(store(9, 60'000)).entry.code == 0);
  bench.run_for(400);
  REQUIRE((bench.engine->core().counters.spills_repeated == 0) == is_flushed);
  bench.disk.set_plan({});
  CHECK(bench.finish(slow).entry.code == code(Code::timed_out));
  run_until_rebuilt(bench);

  CHECK(bench.engine->core().counters.slots_adopted == (is_flushed ? 1U : 0U));
  CHECK(bench.is_there(rank, 1) == is_flushed);
}

TEST_CASE("rebuild: a store waits for the flush of what was adopted, and is told when it fails") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  lose_index(bench);
  rank = bench.attach(0);
  bench.run_until([&] { return bench.engine->core().counters.slots_adopted == 1; });
  REQUIRE(bench.part(1, 0).l3 == L3State::written);
  bench.fill(rank, 0, 1);
  const EngineBench::Call call{.verb = Verb::store, .pages = {1}, .ack = Ack::durable};

  SECTION("it succeeds") {
    CHECK(bench.run(rank, call).entry.code == 0);
    CHECK(bench.part(1, 0).l3 == L3State::durable);
    CHECK(bench.run(rank, {.verb = Verb::flush}).entry.code == 0);
  }
  SECTION("it fails") {
    sim::FaultPlan plan;
    plan.sync_error = 10'000;
    bench.set_plan(plan);
    CHECK(bench.run(rank, call).entry.code == static_cast<std::int32_t>(Code::io_error));
  }
}

TEST_CASE("rebuild: a part that is being read keeps its slot until the read has been judged") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.allocate_all();
  bench.store(rank, {1});
  copy_blob(bench, 1, SlotId{7}, bench.part(1, 0).generation.value + 5);
  bench.run_for(1000);
  bench.index.save_copy();
  bench.store(rank, {2});
  bench.kill();
  REQUIRE(bench.index.put_copy_back());
  bench.start(ColdStartMode::load);
  REQUIRE(bench.engine->rebuilding());
  rank = bench.attach(0);
  bench.disk.set_read_delay(50 * kNsPerMs);

  CHECK(bench.load(rank, 1) == 1U);
  run_until_rebuilt(bench);

  CHECK(bench.part(1, 0).slot == SlotId{7});
  bench.drop_l2();
  CHECK(bench.load(rank, 1) == 1U);
}

}  // namespace hc::test
