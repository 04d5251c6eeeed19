// SPDX-License-Identifier: Apache-2.0
// failing_store_test: what is answered, and what goes on, while the disk or the index fails. Covers
// spiller, group_commit, disk_fill, flush_ledger and engine_orders.
#include "daemon/engine/flush_ledger.h"

#include "unit/daemon/engine/engine_bench.h"

namespace {

using namespace hc;
using hc::test::Answer;
using hc::test::BenchRank;
using hc::test::EngineBench;
using hc::test::code;

struct Served : EngineBench {
  explicit Served(std::uint32_t pages_l3 = 16, std::uint32_t pages_l2 = 16)
      : EngineBench(pages_l3, pages_l2) {
    start(ColdStartMode::clear);
    rank = attach(0);
    run_until([&] { return engine->core().superblock->is_durable(); });
    allocate_all();
  }
  std::int32_t store_resident(std::uint32_t page) {
    fill(rank, 0, page);
    return run(rank, {.verb = Verb::store, .pages = {page}, .ack = Ack::resident}).entry.code;
  }
  std::int32_t flush() { return run(rank, {.verb = Verb::flush}).entry.code; }
  Counters& counters() { return engine->core().counters; }
  Slab& slab() { return slab_of(0); }
  BenchRank rank;
};

// As if the device had failed on `count` free slots.
void set_aside(Slab& slab, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto slot = slab.take(Generation{1});
    REQUIRE(slot);
    slab.mark_quarantined(*slot);
  }
}

sim::FaultPlan plan_with(std::uint32_t sim::FaultPlan::* rate) {
  sim::FaultPlan plan;
  plan.*rate = 10'000;
  return plan;
}

TEST_CASE("spill: slots that are set aside come off the slots, and the rest goes on to serve") {
  Served bench(4, 16);
  bench.disk.set_plan(plan_with(&sim::FaultPlan::write_error));
  REQUIRE(bench.store_resident(1) == 0);
  bench.run_until([&] { return bench.counters().spill_failures == 1; });
  bench.disk.set_plan({});
  set_aside(bench.slab(), 4);
  REQUIRE(bench.engine->slots_quarantined() == 5);  // one more than the reserve

  for (std::uint32_t page = 11; page <= 20; ++page) {
    bench.store(bench.rank, {page});
  }

  bench.drop_l2();
  CHECK(bench.load(bench.rank, 20) == 1U);
}

TEST_CASE("spill: with every slot set aside a store is told, and memory goes on to serve") {
  Served bench(2, 16);
  set_aside(bench.slab(), bench.slab().free_count());
  REQUIRE(bench.slab().usable_count() == 0);

  bench.fill(bench.rank, 0, 9);
  const Answer stored =
      bench.run(bench.rank, {.verb = Verb::store, .pages = {9}, .ack = Ack::durable});

  CHECK(stored.entry.code == code(Code::no_space));
  CHECK(bench.load(bench.rank, 9) == 0U);
}

TEST_CASE("a dead index: stores are told, flushes too, memory goes on to serve, clear repairs it") {
  Served bench(4, 4);
  bench.index.set_plan(plan_with(&sim::FaultPlan::commit_dead));
  bench.fill(bench.rank, 0, 1);
  const Answer durable =
      bench.run(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  CHECK(durable.entry.code == code(Code::io_error));
  CHECK(bench.engine->index_failed());

  // Far more than slots and frames: nothing may keep a frame for a slot that never comes free.
  for (std::uint32_t page = 2; page <= 40; ++page) {
    CAPTURE(page);
    REQUIRE(bench.store_resident(page) == 0);
    CHECK(bench.load(bench.rank, page).has_value());
    bench.run_for(20);
  }
  CHECK(bench.flush() == code(Code::io_error));
  const std::uint64_t barrier = bench.engine->barrier_now();
  CHECK(bench.engine->barrier_reached(barrier));
  CHECK_FALSE(bench.engine->barrier_result(barrier));

  bench.index.set_plan({});
  REQUIRE(bench.engine->start_clear());
  CHECK(bench.finish_order());
  CHECK_FALSE(bench.engine->index_failed());
  bench.store(bench.rank, {50, 51});
  CHECK(bench.flush() == 0);
}

TEST_CASE("commits that fail again and again do not keep memory, and go on when they can") {
  Served bench(4, 4);
  for (std::uint32_t page = 1; page <= 8; ++page) {
    bench.store(bench.rank, {page});
  }
  bench.index.set_plan(plan_with(&sim::FaultPlan::commit_error));
  for (std::uint32_t page = 11; page <= 40; ++page) {
    CAPTURE(page);
    bench.store_resident(page);  // busy until it is known that commits fail
    bench.run_for(20);
  }
  REQUIRE(bench.engine->index_failed());
  CHECK(bench.store_resident(41) == 0);
  bench.index.set_plan({});

  bench.run_until([&] { return !bench.engine->index_failed(); });
  bench.store(bench.rank, {50});

  CHECK(bench.is_there(bench.rank, 50));
}

TEST_CASE("a commit mark that cannot be written is counted, and its group is committed") {
  Served bench;
  bench.store(bench.rank, {2});  // the notes of the space are written with the first group
  bench.fill(bench.rank, 0, 1);
  const std::uint16_t store =
      bench.submit(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  bench.run_until([&] { return bench.part(1, 0).l3 == L3State::written; });
  bench.disk.set_plan(plan_with(&sim::FaultPlan::write_error));  // nothing but the mark is left
  CHECK(bench.finish(store).entry.code == 0);
  CHECK(bench.counters().marks_failed == 1);
  bench.disk.set_plan({});

  bench.restart();

  CHECK(bench.is_there(bench.rank = bench.attach(0), 1));
}

TEST_CASE("flush: after a failed sync parts in memory are written again before it ends well") {
  Served bench;
  bench.disk.set_plan(plan_with(&sim::FaultPlan::sync_error));
  REQUIRE(bench.store_resident(1) == 0);
  const std::uint16_t flush = bench.submit(bench.rank, {.verb = Verb::flush});
  bench.run_until([&] { return bench.counters().commit_failures == 1; });
  bench.disk.set_plan({});

  CHECK(bench.finish(flush).entry.code == 0);
  CHECK(bench.part(1, 0).l3 == L3State::durable);
  CHECK(bench.counters().spills_repeated == 1);
  bench.drop_l2();
  CHECK(bench.load(bench.rank, 1) == 1U);
}

TEST_CASE("flush: a sync that goes on failing is told, once to each, and not of newer parts") {
  Served bench;
  BenchRank other = bench.attach(0);
  bench.disk.set_plan(plan_with(&sim::FaultPlan::sync_error));
  REQUIRE(bench.store_resident(1) == 0);

  CHECK(bench.flush() == code(Code::io_error));

  CHECK(bench.counters().spills_repeated == 3);
  CHECK(bench.load(bench.rank, 1) == 0U);  // it is in memory, and may be stored again
  bench.disk.set_plan({});
  const std::uint64_t barrier = bench.engine->barrier_now();
  REQUIRE(bench.engine->barrier_reached(barrier));
  const Result<void> told = bench.engine->barrier_result(barrier);
  REQUIRE_FALSE(told);
  CHECK(told.error().code == Code::io_error);
  CHECK(bench.engine->barrier_result(bench.engine->barrier_now()));
  bench.store(bench.rank, {2});
  CHECK(bench.flush() == 0);
  CHECK(bench.run(other, {.verb = Verb::flush}).entry.code == code(Code::io_error));
  CHECK(bench.run(other, {.verb = Verb::flush}).entry.code == 0);
  BenchRank late = bench.attach(0);
  CHECK(bench.run(late, {.verb = Verb::flush}).entry.code == 0);
}

TEST_CASE("flush: a spill that failed before or during it is told") {
  Served bench;
  bench.disk.set_plan(plan_with(&sim::FaultPlan::write_error));
  REQUIRE(bench.store_resident(1) == 0);
  CHECK(bench.flush() == code(Code::io_error));
  REQUIRE(bench.store_resident(2) == 0);
  bench.run_until([&] { return bench.counters().spill_failures == 2; });
  bench.disk.set_plan({});

  CHECK(bench.flush() == code(Code::io_error));
  CHECK(bench.flush() == 0);
}

TEST_CASE("flush: what has been forgotten or evicted is no loss") {
  Served bench(2, 8);
  for (std::uint32_t page = 1; page <= 5; ++page) {
    REQUIRE(bench.store_resident(page) == 0);
  }
  bench.submit(bench.rank, {.verb = Verb::free_object, .pages = {5}});

  CHECK(bench.flush() == 0);
}

TEST_CASE("flush ledger: what falls off its end counts for everybody, the rest by its barrier") {
  FlushLedger ledger;
  ledger.lose(10, Code::no_space);
  CHECK(ledger.first_covered(0, 9) == Code::ok);
  CHECK(ledger.first_covered(0, 10) == Code::no_space);
  CHECK(ledger.first_covered(1, 10) == Code::ok);
  ledger.lose(30, Code::io_error);
  ledger.lose(20, Code::io_error);
  CHECK(ledger.told_by(0, 20) == 1);  // the third is told again: better than never
  CHECK(ledger.told_by(0, 30) == 3);

  for (std::uint64_t barrier = 100; barrier < 5'000; ++barrier) {
    ledger.lose(barrier, Code::io_error);
  }
  CHECK(ledger.first_covered(0, 1) == Code::io_error);
  CHECK(ledger.first_covered(ledger.last(), 1) == Code::ok);
  CHECK(ledger.told_by(0, 5'000) == ledger.last());
}

TEST_CASE("a read that the kernel could not take is a miss that time, and costs nothing durable") {
  Served bench;
  bench.store(bench.rank, {1});
  bench.drop_l2();
  bench.disk.set_plan(plan_with(&sim::FaultPlan::transient));

  CHECK_FALSE(bench.is_there(bench.rank, 1));

  bench.disk.set_plan({});
  CHECK(bench.engine->slots_quarantined() == 0);
  CHECK(bench.part(1, 0).l3 == L3State::durable);
  CHECK(bench.load(bench.rank, 1) == 1U);
}

TEST_CASE("a write that the kernel could not take frees its slot") {
  Served bench;
  bench.disk.set_plan(plan_with(&sim::FaultPlan::transient));
  REQUIRE(bench.store_resident(1) == 0);
  bench.run_until([&] { return bench.counters().spill_failures == 1; });
  bench.disk.set_plan({});

  CHECK(bench.engine->slots_quarantined() == 0);
  CHECK(bench.slab().live_count() + bench.slab().limbo_count() == 0);
}

TEST_CASE("forgotten parts leave a queue whose front waits, and their frames come free") {
  Served bench(2, 16);
  for (std::uint32_t page = 1; page <= 4; ++page) {
    bench.store(bench.rank, {page});
  }
  bench.options.commit_interval_ms = 60'000;
  bench.restart();
  bench.rank = bench.attach(0);
  bench.index.set_plan(plan_with(&sim::FaultPlan::commit_error));
  for (std::uint32_t page = 11; page <= 18; ++page) {
    REQUIRE(bench.store_resident(page) == 0);
  }
  bench.run_until([&] { return bench.counters().commit_failures == 1; });
  bench.run_for(1'000);
  REQUIRE(bench.part(18, 0).l3 == L3State::queued);
  FramePool& frames = bench.engine->core().spaces->family(FamilyNo{}).frames[0];
  const std::uint32_t free_before = frames.free_count();

  bench.submit(bench.rank, {.verb = Verb::free_object, .pages = {18}});
  bench.run_for(100);

  CHECK(bench.counters().commit_failures == 1);
  CHECK(frames.free_count() == free_before + 1);
}

}  // namespace
