// SPDX-License-Identifier: Apache-2.0
// silent_disk_test: a device that does not answer, or says no to everything: whoever waits is told,
// memory and slots stay where the device may still reach them, and all is well when it comes back.
// daemon/engine/group_commit_flush.cpp
#include <cerrno>

#include "unit/daemon/engine/rebuild_bench.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kTimeoutMs = 300;

struct Bench : EngineBench {
  explicit Bench(bool with_steps = true) {
    options.io_timeout_ms = kTimeoutMs;
    start(ColdStartMode::clear);
    rank = attach(0);
    if (with_steps) {
      allocate_all();
    }
  }
  const Counters& counters() { return engine->core().counters; }
  BenchRank rank;
};

TEST_CASE("a read that is not answered is a miss for all who want it, and a hit when it was") {
  Bench bench;
  bench.store(bench.rank, {1});
  bench.drop_l2();
  bench.disk.hold_volume(0, true);
  const Instant began = bench.clock.time();

  CHECK_FALSE(bench.load(bench.rank, 1));
  CHECK(bench.clock.time() - began < 3 * kTimeoutMs * kNsPerMs);
  CHECK(bench.counters().io_timeouts == 1);
  CHECK(bench.part(1, 0).l2 == L2State::filling);  // the device may still write there
  const Instant again = bench.clock.time();
  CHECK_FALSE(bench.load(bench.rank, 1));
  CHECK(bench.clock.time() - again < kTimeoutMs * kNsPerMs);
  CHECK(bench.counters().slots_quarantined == 0);

  bench.disk.hold_volume(0, false);
  bench.run_until([&] { return bench.part(1, 0).l2 == L2State::resident; });
  CHECK(bench.load(bench.rank, 1) == 0U);
}

TEST_CASE("a write that is not answered fails its store and its flush, and the next store counts") {
  Bench bench;
  bench.disk.hold_volume(0, true);
  bench.fill(bench.rank, 0, 1);
  const Answer stored =
      bench.run(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  CHECK(stored.entry.code == code(Code::io_error));
  CHECK(bench.part(1, 0).l3 == L3State::writing);  // the device may still read from there
  const Answer flushed = bench.run(bench.rank, {.verb = Verb::flush});
  CHECK(flushed.entry.code == code(Code::io_error));
  CHECK(bench.load(bench.rank, 1) == 0U);  // from memory

  bench.disk.hold_volume(0, false);
  bench.run_until([&] { return bench.part(1, 0).l3 == L3State::absent; });
  CHECK(bench.counters().slots_quarantined == 0);
  bench.store(bench.rank, {1});
  bench.restart();
  bench.rank = bench.attach(0);
  CHECK(bench.load(bench.rank, 1) == 1U);  // from disk
}

TEST_CASE("a step that is not answered fails the stores that wait for it, and comes all the same") {
  Bench bench(false);
  bench.disk.hold_volume(0, true);
  bench.fill(bench.rank, 0, 1);
  const Instant began = bench.clock.time();
  const Answer stored =
      bench.run(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  CHECK(stored.entry.code == code(Code::io_error));
  CHECK(bench.clock.time() - began < 2 * kTimeoutMs * kNsPerMs);
  bench.fill(bench.rank, 0, 2);
  const Instant again = bench.clock.time();
  const Answer later =
      bench.run(bench.rank, {.verb = Verb::store, .pages = {2}, .ack = Ack::durable});
  CHECK(later.entry.code == code(Code::io_error));
  CHECK(bench.clock.time() - again < kTimeoutMs * kNsPerMs);

  bench.disk.hold_volume(0, false);
  bench.run_for(200);
  bench.store(bench.rank, {1, 2});
  bench.drop_l2();
  CHECK(bench.load(bench.rank, 2) == 1U);  // from disk
}

TEST_CASE("steps that the device refuses evict nothing, and their space is not lost") {
  Bench bench(false);
  bench.store(bench.rank, {1, 2, 3});
  bench.disk.fail_volume(0, EIO, EIO);
  for (std::uint32_t page = 10; page < 24; ++page) {
    bench.fill(bench.rank, 0, page);
    bench.run(bench.rank, {.verb = Verb::store, .pages = {page}, .ack = Ack::durable});
  }
  CHECK(bench.counters().pages_evicted_l3 == 0);

  bench.disk.fail_volume(0, 0, 0);
  bench.run_for(1500);
  bench.drop_l2();
  CHECK(bench.load(bench.rank, 3) == 1U);
  for (std::uint32_t page = 30; page < 42; ++page) {
    bench.store(bench.rank, {page});
  }
  bench.drop_l2();
  CHECK(bench.load(bench.rank, 3) == 1U);  // there is room for all of them
}

TEST_CASE("a device that says no to everything costs few slots, and serves again when it is well") {
  Bench bench;
  bench.store(bench.rank, {1, 2, 3});
  bench.drop_l2();
  bench.disk.fail_volume(0, EIO, EIO);
  bench.run_for(50);
  // Stores go on into memory; their spills fail, at once after the first few.
  for (std::uint32_t page = 10; page < 30; ++page) {
    bench.fill(bench.rank, 0, page);
    bench.run(bench.rank, {.verb = Verb::store, .pages = {page}, .ack = Ack::durable});
  }
  CHECK(bench.counters().slots_quarantined <= 1);  // of the writes
  CHECK(bench.counters().volume_failures == 1);
  CHECK_FALSE(bench.load(bench.rank, 2));  // the first read refused costs its slot, no other does
  CHECK_FALSE(bench.load(bench.rank, 3));

  bench.disk.fail_volume(0, 0, 0);
  bench.run_for(1500);
  CHECK(bench.load(bench.rank, 3) == 1U);  // from disk
  bench.store(bench.rank, {40});
}

// Until the first part of this page has been written, and before a group has made it durable.
void run_until_written(Bench& bench, std::uint32_t page) {
  bench.run_until([&] {
    return bench.page(page) != kNoPage && bench.part(page, 0).l3 == L3State::written;
  });
}

TEST_CASE("a superblock that is not answered is told to who waits, and the commit follows it") {
  Bench bench;
  BenchRank rank = bench.attach(0, "w2");  // the superblock gets the name of its space
  bench.fill(rank, 0, 1);
  const std::uint16_t stored =
      bench.submit(rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  const auto part = [&]() -> Part& {
    Catalog& catalog = *bench.engine->core().catalog;
    return catalog.part(catalog.ref(bench.page(1, rank.space), 0));
  };
  bench.run_until([&] {
    return bench.page(1, rank.space) != kNoPage && part().l3 == L3State::written;
  });
  REQUIRE_FALSE(bench.engine->core().superblock->is_durable());
  bench.disk.hold_volume(0, true);
  const Instant began = bench.clock.time();
  CHECK(bench.finish(stored).entry.code == code(Code::io_error));
  CHECK(bench.clock.time() - began < 2 * kTimeoutMs * kNsPerMs);

  bench.disk.hold_volume(0, false);
  bench.run_until([&] { return part().l3 == L3State::durable; });
  bench.restart();
  rank = bench.attach(0, "w2");
  CHECK(bench.load(rank, 1) == 1U);  // from disk
}

TEST_CASE("a note of the commit that is not answered fails the group, and the next one is whole") {
  Bench bench;
  bench.store(bench.rank, {1});
  bench.fill(bench.rank, 0, 2);
  const std::uint16_t freed =  // which is noted
      bench.submit(bench.rank, {.verb = Verb::free_object, .pages = {1}});
  const std::uint16_t stored =
      bench.submit(bench.rank, {.verb = Verb::store, .pages = {2}, .ack = Ack::durable});
  run_until_written(bench, 2);
  REQUIRE(bench.engine->core().superblock->is_durable());
  bench.disk.hold_volume(0, true);
  bench.run_until([&] { return bench.counters().commit_failures > 0; });
  CHECK(bench.finish(stored).entry.code == code(Code::io_error));
  const std::uint64_t failures = bench.counters().commit_failures;
  bench.run_for(20'000);
  CHECK(bench.counters().commit_failures <= failures + 1);  // the notes are the device's still

  bench.disk.hold_volume(0, false);
  CHECK(bench.finish(freed).entry.code == code(Code::ok));
  // Its slab was not flushed in time, nor was it written again: that copy is not believed.
  bench.run_until([&] { return bench.part(2, 0).l3 == L3State::absent; });
  bench.store(bench.rank, {2});
  CHECK(bench.counters().slots_quarantined == 0);
  bench.restart();
  bench.rank = bench.attach(0);
  CHECK(bench.load(bench.rank, 2) == 1U);  // from disk
  CHECK_FALSE(bench.is_there(bench.rank, 1));
}

TEST_CASE("a flush that fails after its time was up is a failure of what was written meanwhile") {
  Bench bench;
  bench.fill(bench.rank, 0, 1);
  const std::uint16_t stored =
      bench.submit(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  run_until_written(bench, 1);
  bench.run_until([&] { return bench.disk.has_in_flight(DiskOp::sync); });
  sim::FaultPlan plan;
  plan.sync_error = 10'000;
  bench.disk.set_plan(plan);
  bench.disk.hold_volume(0, true);
  bench.run_until([&] { return bench.counters().flush_failures > 0; });
  CHECK(bench.finish(stored).entry.code == code(Code::io_error));

  const std::uint64_t failures = bench.counters().flush_failures;
  bench.disk.hold_volume(0, false);
  bench.run_until([&] { return bench.engine->core().io.overdue() == 0; });
  CHECK(bench.counters().flush_failures > failures);
  bench.disk.set_plan({});
  bench.store(bench.rank, {1, 2});
  bench.kill(sim::Crash::power);
  bench.start(ColdStartMode::load);
  bench.rank = bench.attach(0);
  CHECK(bench.load_all(bench.rank, {1, 2}) == Code::ok);
  CHECK(bench.laws.count() == 0);
}

TEST_CASE("a rebuild waits for a device that says no to everything, and costs one slot at most") {
  Bench bench;
  std::vector<std::uint32_t> pages;
  for (std::uint32_t page = 1; page <= 12; ++page) {
    pages.push_back(page);
  }
  bench.store(bench.rank, pages);
  bench.kill();
  bench.index.lose();
  bench.open();
  REQUIRE(bench.engine->cold_start(ColdStartMode::load));
  bench.disk.fail_volume(0, EIO, EIO);
  bench.run_for(20'000);
  CHECK(bench.engine->rebuilding());
  CHECK(bench.counters().slots_quarantined <= 1);

  bench.disk.fail_volume(0, 0, 0);
  run_until_rebuilt(bench);
  bench.rank = bench.attach(0);
  std::size_t found = 0;
  for (const std::uint32_t page : pages) {
    found += bench.is_there(bench.rank, page) ? 1U : 0U;
  }
  CHECK(found >= pages.size() - 1);
  CHECK(bench.counters().slots_adopted == found);
}

TEST_CASE("a page is forgotten on a device that says no: its wipe waits, and the engine rests") {
  Bench bench;
  bench.store(bench.rank, {1});
  bench.disk.fail_volume(0, 0, EROFS);
  bench.fill(bench.rank, 0, 2);
  bench.run(bench.rank, {.verb = Verb::store, .pages = {2}, .ack = Ack::durable});
  REQUIRE(bench.counters().volume_failures == 1);
  const std::uint16_t freed = bench.submit(bench.rank, {.verb = Verb::free_object, .pages = {1}});
  bench.run_for(3000);
  CHECK_FALSE(bench.ended(freed));
  CHECK_FALSE(bench.is_there(bench.rank, 1));

  bench.disk.fail_volume(0, 0, 0);
  CHECK(bench.finish(freed).entry.code == code(Code::ok));
  bench.restart();
  bench.rank = bench.attach(0);
  CHECK_FALSE(bench.is_there(bench.rank, 1));
}

TEST_CASE("a stop waits for the wipe of a freed page, but not for a device that refuses it") {
  Bench bench;
  bench.store(bench.rank, {1});
  bench.disk.fail_volume(0, 0, EROFS);
  bench.fill(bench.rank, 0, 2);
  bench.run(bench.rank, {.verb = Verb::store, .pages = {2}, .ack = Ack::durable});
  REQUIRE(bench.counters().volume_failures == 1);
  bench.submit(bench.rank, {.verb = Verb::free_object, .pages = {1}});
  bench.run_for(10);
  bench.detach(bench.rank);
  SECTION("it still refuses") {
    bench.run_until([&] { return bench.engine->drained(); });
    CHECK(bench.engine->core().io.refuses(IoKind::zero_header, 0));
  }
  SECTION("it has come back, and the wipe is not done yet") {
    bench.disk.fail_volume(0, 0, 0);
    bench.run_until([&] { return !bench.engine->core().io.refuses(IoKind::zero_header, 0); });
    CHECK_FALSE(bench.engine->drained());
    bench.run_until([&] { return bench.engine->drained(); });
    bench.restart();
    bench.rank = bench.attach(0);
    CHECK_FALSE(bench.is_there(bench.rank, 1));
  }
}

TEST_CASE("commits that go on failing are told to who waits for them, and end well later") {
  Bench bench;
  bench.store(bench.rank, {1});
  sim::FaultPlan plan;
  plan.commit_error = 10'000;
  bench.set_plan(plan);
  bench.fill(bench.rank, 0, 2);
  const Answer refused =
      bench.run(bench.rank, {.verb = Verb::store, .pages = {2}, .ack = Ack::durable});
  CHECK((refused.entry.code == code(Code::io_error) ||
         refused.entry.code == code(Code::no_space)));  // as the index fails
  CHECK(bench.load(bench.rank, 2) == 0U);  // from memory

  bench.set_plan({});
  bench.run_until([&] { return bench.part(2, 0).l3 == L3State::durable; });
}

}  // namespace
}  // namespace hc::test
