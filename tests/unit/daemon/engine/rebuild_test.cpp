// SPDX-License-Identifier: Apache-2.0
// rebuild_test: an index that is lost, damaged or old is completed from the slots.
// daemon/engine/rebuild.cpp, daemon/engine/recovery_marks.cpp, daemon/engine/side_notes.cpp,
// daemon/engine/group_commit_failure.cpp, daemon/engine/engine_start.cpp
#include <numeric>

#include "unit/daemon/engine/rebuild_bench.h"

namespace hc::test {

TEST_CASE("rebuild: with the index lost every durable page is found again and gets its row") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3});

  lose_index(bench);
  CHECK(bench.engine->rebuilding());
  CHECK(bench.engine->load_progress().rebuilding);
  rank = bench.attach(0);  // the service is there at once
  run_until_rebuilt(bench);

  CHECK(bench.load_all(rank, {1, 2, 3}) == Code::ok);
  CHECK(bench.engine->core().counters.slots_adopted == 3);
  CHECK(bench.engine->core().counters.index_rebuilds == 1);
  CHECK(committed(bench, 1));
  CHECK(bench.index.state().rebuilding == false);
  CHECK(bench.laws.count() == 0);
  bench.restart();  // nothing is left to do
  CHECK_FALSE(bench.engine->rebuilding());
  CHECK(bench.engine->load_progress().live == 3);
}

TEST_CASE("rebuild: a damaged index is set aside, and what it knew is found in the slots") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  bench.kill();
  bench.index.damage();

  bench.start(ColdStartMode::load);
  rank = bench.attach(0);
  run_until_rebuilt(bench);

  CHECK(bench.load_all(rank, {1, 2}) == Code::ok);
}

TEST_CASE("rebuild: an old copy of the index is found out, and what it does not know is found") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  bench.run_for(1000);
  bench.index.save_copy();
  bench.store(rank, {3});
  bench.kill();
  REQUIRE(bench.index.put_copy_back());

  bench.start(ColdStartMode::load);
  REQUIRE(bench.engine->rebuilding());
  rank = bench.attach(0);
  CHECK(bench.load_all(rank, {1, 2}) == Code::ok);  // its rows count as far as the headers agree
  run_until_rebuilt(bench);

  CHECK(bench.load_all(rank, {1, 2, 3}) == Code::ok);
  CHECK(bench.engine->core().counters.slots_adopted == 1);
}

// The numbers of commits begin anew with an epoch, since its marks do: a start that has lost the
// index goes on from them, and an older copy must not be ahead of it.
TEST_CASE("rebuild: a copy of the index from just after a clear is older than all that follows") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  for (std::uint32_t number = 1; number <= 4; ++number) {
    bench.store(rank, {number});
    bench.run_for(1000);
  }
  REQUIRE(bench.engine->start_clear());
  REQUIRE(bench.finish_order());
  bench.run(rank, {.verb = Verb::free_object, .pages = {9}});  // a commit that flushes nothing
  bench.index.save_copy();
  lose_index(bench);
  run_until_rebuilt(bench);
  rank = bench.attach(0);
  bench.store(rank, {5});
  bench.kill();
  REQUIRE(bench.index.put_copy_back());

  bench.start(ColdStartMode::load);
  REQUIRE(bench.engine->rebuilding());
  rank = bench.attach(0);
  run_until_rebuilt(bench);

  CHECK(bench.load_all(rank, {5}) == Code::ok);
}

TEST_CASE("rebuild: a damaged row costs its page nothing") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  bench.kill();
  sim::FaultPlan plan;
  plan.row_damaged = 10'000;
  bench.set_plan(plan);
  bench.index.damage_rows();
  bench.set_plan({});

  bench.start(ColdStartMode::load);
  rank = bench.attach(0);
  run_until_rebuilt(bench);

  CHECK(bench.load_all(rank, {1, 2}) == Code::ok);
}

TEST_CASE("rebuild: a clean restart and a fresh store need none") {
  EngineBench bench;
  bench.start(ColdStartMode::load);
  CHECK_FALSE(bench.engine->rebuilding());
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  bench.run_for(1000);

  bench.restart();

  CHECK_FALSE(bench.engine->rebuilding());
  CHECK(bench.engine->core().counters.index_rebuilds == 0);
}

TEST_CASE("rebuild: a crash in the middle begins it anew") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3, 4});
  lose_index(bench);
  bench.run_until([&] { return bench.index.state().rebuilding; });

  bench.restart();

  REQUIRE(bench.engine->rebuilding());
  rank = bench.attach(0);
  run_until_rebuilt(bench);
  CHECK(bench.load_all(rank, {1, 2, 3, 4}) == Code::ok);
}

TEST_CASE("rebuild: what a killed daemon had written is flushed before its row is committed") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  lose_index(bench);
  rank = bench.attach(0);
  run_until_rebuilt(bench);
  REQUIRE(committed(bench, 1));

  bench.kill(sim::Crash::power);
  bench.start(ColdStartMode::load);
  rank = bench.attach(0);

  CHECK(bench.load_all(rank, {1, 2}) == Code::ok);
}

TEST_CASE("rebuild: a page stored before its old slot was read has one owner, the new one") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  const Generation old = bench.part(1, 0).generation;
  bench.kill();
  bench.index.lose();
  bench.disk.set_read_delay(50 * kNsPerMs);
  bench.start(ColdStartMode::load);
  rank = bench.attach(0);
  REQUIRE(bench.page(1) == kNoPage);

  bench.store(rank, {1});
  bench.disk.set_read_delay(0);
  run_until_rebuilt(bench);

  CHECK(bench.part(1, 0).generation != old);
  CHECK(bench.slab_of(0).live_count() == 1);
  bench.drop_l2();
  CHECK(bench.load(rank, 1) == 1U);
}

TEST_CASE("rebuild: of two blobs of one page the later generation counts, wherever it lies") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3});
  // Whichever lies in the last of the three slots, and another one that makes room before it.
  std::uint32_t kept = 1;
  for (std::uint32_t number = 2; number <= 3; ++number) {
    kept = bench.part(number, 0).slot.value > bench.part(kept, 0).slot.value ? number : kept;
  }
  const std::uint32_t freed = kept == 1 ? 2 : 1;
  const Generation newest = bench.part(kept, 0).generation;
  const SlotId live = bench.part(kept, 0).slot;
  const SlotId before = bench.part(freed, 0).slot;
  REQUIRE(bench.run(rank, {Verb::free_object, {freed}}).entry.code == 0);
  // As left behind by evictions: once before the live slot, once after it.
  copy_blob(bench, kept, before, newest.value - 5);
  copy_blob(bench, kept, SlotId{live.value + 3}, newest.value - 4);

  lose_index(bench);
  rank = bench.attach(0);
  run_until_rebuilt(bench);

  CHECK(bench.part(kept, 0).generation == newest);
  CHECK(bench.part(kept, 0).slot == live);
  CHECK(bench.slab_of(0).live_count() == 2);
  CHECK(bench.is_there(rank, kept));
}

TEST_CASE("rebuild: an older blob of a forgotten page does not bring it back, a younger one does") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  const std::uint32_t generation = bench.part(1, 0).generation.value;
  const auto blob = read_blob(bench, 1);
  REQUIRE(bench.run(rank, {Verb::free_object, {1}}).entry.code == 0);
  write_blob(bench, blob, SlotId{7}, generation);

  SECTION("older") {
    lose_index(bench, sim::Crash::power);
    run_until_rebuilt(bench);
    CHECK(bench.page(1) == kNoPage);
    CHECK(bench.page(2) != kNoPage);
  }
  SECTION("stored again") {
    bench.store(rank, {1});
    lose_index(bench, sim::Crash::power);
    rank = bench.attach(0);
    run_until_rebuilt(bench);
    CHECK(bench.is_there(rank, 1));
  }
  SECTION("named by the row of an old copy") {
    IndexBatch batch;
    batch.puts.push_back({SpaceNo{0}, page_hash(1), 5, {{0, 0, 0, 0, 7, generation}}});
    bench.run_for(500);
    bench.index.commit(std::move(batch));  // with the state of an empty index: an old one
    bench.run_until([&] { return bench.index.poll().has_value(); });
    bench.restart();
    REQUIRE(bench.engine->rebuilding());
    run_until_rebuilt(bench);
    CHECK(bench.page(1) == kNoPage);
    CHECK(bench.page(2) != kNoPage);
  }
}

TEST_CASE("rebuild: clear, clear of a space and free_object stay true when the index is lost") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  BenchRank other = bench.attach(0, "w2");
  bench.store(rank, {1, 2});
  bench.store(other, {1, 3});

  SECTION("free_object") {
    CHECK(bench.run(rank, {Verb::free_object, {1}}).entry.code == 0);
    lose_index(bench);
    rank = bench.attach(0);
    other = bench.attach(0, "w2");
    run_until_rebuilt(bench);
    CHECK_FALSE(bench.is_there(rank, 1));
    CHECK(bench.is_there(rank, 2));
    CHECK(bench.is_there(other, 1));  // of other weights: another page
  }
  SECTION("clear of a space") {
    REQUIRE(bench.engine->start_clear_space(rank.space));
    REQUIRE(bench.finish_order());
    lose_index(bench);
    rank = bench.attach(0);
    other = bench.attach(0, "w2");
    run_until_rebuilt(bench);
    CHECK_FALSE(bench.is_there(rank, 1));
    CHECK_FALSE(bench.is_there(rank, 2));
    CHECK(bench.load_all(other, {1, 3}) == Code::ok);
  }
  SECTION("clear") {
    REQUIRE(bench.engine->start_clear());
    REQUIRE(bench.finish_order());
    bench.store(rank, {4});
    lose_index(bench);
    rank = bench.attach(0);
    other = bench.attach(0, "w2");
    run_until_rebuilt(bench);
    CHECK_FALSE(bench.is_there(rank, 1));
    CHECK_FALSE(bench.is_there(other, 3));
    CHECK(bench.is_there(rank, 4));
  }
}

TEST_CASE("rebuild: an evicted page may come back; one that was forgotten after that may not") {
  EngineBench bench(4);
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  bench.drop_l2();
  // Eviction takes the oldest two; their headers stay until the slots are used again.
  bench.store(rank, {3, 4, 5, 6});
  bench.drop_l2();
  REQUIRE(bench.page(1) == kNoPage);
  REQUIRE(bench.page(2) == kNoPage);
  CHECK(bench.run(rank, {Verb::free_object, {1}}).entry.code == 0);

  lose_index(bench, sim::Crash::power);
  rank = bench.attach(0);
  run_until_rebuilt(bench);

  CHECK(bench.page(1) == kNoPage);
  const bool second_is_back = bench.page(2) != kNoPage;
  CHECK((!second_is_back || bench.load(rank, 2) == 1U));
}

TEST_CASE("rebuild: an index that dies while serving is written anew from memory") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  sim::FaultPlan plan;
  plan.commit_dead = 10'000;
  bench.set_plan(plan);
  const auto slot = bench.submit(rank, {Verb::free_object, {9}});  // anything that commits
  bench.run_until([&] { return bench.index.is_dead(); });
  bench.set_plan({});
  CHECK(bench.finish(slot).entry.code == 0);
  bench.store(rank, {3});
  bench.run_for(3000);

  CHECK(bench.engine->core().counters.index_repairs == 1);
  CHECK_FALSE(bench.engine->index_failed());
  CHECK(bench.index.rows().size() == 3);
  CHECK_FALSE(bench.index.state().rebuilding);
  bench.restart();
  CHECK_FALSE(bench.engine->rebuilding());
  rank = bench.attach(0);
  CHECK(bench.load_all(rank, {1, 2, 3}) == Code::ok);
}

TEST_CASE("rebuild: the order of eviction is that of the last accesses, whatever came meanwhile") {
  EngineBench bench(260, 260);
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  const auto store_all = [&](std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t page = first; page <= last; page += 8) {
      std::vector<std::uint32_t> pages(8);
      std::iota(pages.begin(), pages.end(), page);
      bench.store(rank, pages);
    }
  };
  store_all(1, 120);
  lose_index(bench);
  rank = bench.attach(0);
  REQUIRE(bench.engine->rebuilding());

  store_all(201, 296);
  REQUIRE(bench.load_all(rank, {201, 203}) == Code::ok);
  run_until_rebuilt(bench);

  Core& core = bench.engine->core();
  REQUIRE(core.counters.slots_adopted == 120);
  const SlabId slab = *core.family_of(bench.page(1)).slab(0, 0);
  LruList& order = core.slot_order.order(slab);
  CHECK(order.size() == 216);
  std::uint64_t before = 0;
  for (std::uint32_t slot = order.oldest(); slot != kNone32; slot = order.newer_than(slot)) {
    const PageId page = core.catalog->page_of(core.slot_order.owner(slab, slot));
    CHECK(core.catalog->page(page).last_access >= before);
    before = core.catalog->page(page).last_access;
  }
}

TEST_CASE("rebuild: the order of eviction follows the age of the blobs") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  for (std::uint32_t number = 1; number <= 6; ++number) {
    bench.store(rank, {number});
  }
  lose_index(bench);
  run_until_rebuilt(bench);

  LruList& order = bench.engine->core().slot_order.order(bench.part(1, 0).slab);
  std::uint32_t expected = 1;
  for (std::uint32_t slot = order.oldest(); slot != kNone32; slot = order.newer_than(slot)) {
    CHECK(slot == bench.part(expected, 0).slot.value);
    ++expected;
  }
  CHECK(expected == 7);
}

}  // namespace hc::test
