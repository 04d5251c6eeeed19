// SPDX-License-Identifier: Apache-2.0
// families_test: several families and several volumes of one store; steps that move between slabs:
// daemon/engine/spaces.cpp, daemon/engine/family_budget.cpp, daemon/engine/step_mover.cpp.
#include "engine_bench.h"
#include "proto/budget.h"

namespace {

using namespace hc;
using hc::test::bench_space;
using hc::test::BenchRank;
using hc::test::EngineBench;

SpaceDescriptor first_space() {
  SpaceDescriptor space = bench_space();
  space.world.tensor = 1;
  return space;
}

SpaceDescriptor other_space(std::uint32_t payload_bytes = 9000) {
  SpaceDescriptor space = first_space();
  space.model = "other";
  space.kinds[0].payload_bytes = payload_bytes;
  return space;
}

// Room for two families in memory, and on the disk for `pages` pages of the first one.
struct TwoFamilies : EngineBench {
  explicit TwoFamilies(std::uint32_t pages = 24) : EngineBench(pages, 16) {
    options.spaces.l2_family_bytes = options.spaces.l2_bytes;
    options.spaces.l2_bytes *= 3;
    options.spaces.l3_bytes = slab_bytes(slots_for_pages(first_space(), 1, pages, 4));
  }
  void serve() {
    start(ColdStartMode::clear);
    run_until([&] { return engine->core().superblock->is_durable(); });
  }
  StepLedger& ledger(std::uint16_t volume = 0) {
    return engine->core().spaces->slabs().ledger(volume);
  }
  std::uint64_t on_disk(std::uint16_t volume = 0) { return disk.slab_bytes(volume); }
  Counters& counters() { return engine->core().counters; }
  std::uint32_t stored_of(BenchRank& rank, std::uint32_t first, std::uint32_t last) {
    drop_l2();
    std::uint32_t hits = 0;
    for (std::uint32_t number = first; number <= last; ++number) {
      hits += is_there(rank, number) ? 1U : 0U;
    }
    return hits;
  }
  void store_each(BenchRank& rank, std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t number = first; number <= last; ++number) {
      store(rank, {number});
      REQUIRE(ledger().charged_bytes() <= ledger().budget_bytes());
      REQUIRE(on_disk() <= ledger().charged_bytes());
    }
  }
};

TEST_CASE("families: two of different payload sizes share a store, and are there after a load") {
  TwoFamilies bench;
  bench.serve();
  BenchRank first = bench.attach_space(first_space(), 0);
  BenchRank second = bench.attach_space(other_space(), 0);
  CHECK(bench.engine->core().spaces->family_count() == 2);
  for (std::uint32_t number = 1; number <= 5; ++number) {
    bench.store(first, {number});
    bench.store(second, {number});
  }

  bench.restart();

  CHECK(bench.engine->core().spaces->family_count() == 2);
  BenchRank first_again = bench.attach_space(first_space(), 0);
  BenchRank second_again = bench.attach_space(other_space(), 0);
  CHECK(bench.stored_of(first_again, 1, 5) == 5);
  CHECK(bench.stored_of(second_again, 1, 5) == 5);
}

TEST_CASE("families: one more than the most is refused in one line") {
  TwoFamilies bench(200);
  bench.options.sessions_max = 32;
  bench.options.spaces.l2_bytes *= 16;
  bench.options.spaces.l2_family_bytes /= 4;
  bench.serve();
  for (std::uint32_t number = 0; number < kFamiliesMax; ++number) {
    SpaceDescriptor space = other_space();
    space.model = "model" + std::to_string(number);
    REQUIRE(bench.engine->attach({space, 0, 0}));
  }

  const auto refused = bench.engine->attach({first_space(), 0, 0});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::refused);
  CHECK(refused.error().text.find("16 families") != std::string::npos);
  CHECK(refused.error().text.find('\n') == std::string::npos);
  CHECK(bench.engine->core().spaces->family_count() == kFamiliesMax);
}

TEST_CASE("families: memory that others have is named, with the key that bounds it") {
  TwoFamilies bench;
  bench.options.spaces.l2_family_bytes = 0;
  bench.serve();
  REQUIRE(bench.engine->attach({first_space(), 0, 0}));

  const auto refused = bench.engine->attach({other_space(), 0, 0});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::no_space);
  CHECK(refused.error().text.find("l2.family_bytes") != std::string::npos);
  CHECK(bench.engine->core().spaces->family_count() == 1);
}

TEST_CASE("steps: the oldest ones of an idle family give way, one by one, within the budget") {
  TwoFamilies bench;
  bench.serve();
  BenchRank idle = bench.attach_space(first_space(), 0);
  bench.store_each(idle, 1, 40);
  bench.detach(idle);
  const std::uint32_t before = bench.slab_of(0).open_steps();
  BenchRank busy = bench.attach_space(other_space(), 0);

  bench.store_each(busy, 1, 4);

  CHECK(bench.counters().steps_moved > 0);
  CHECK(bench.slab_of(0).open_steps() < before);
  CHECK(bench.stored_of(busy, 1, 4) == 4);
  BenchRank again = bench.attach_space(first_space(), 0);
  CHECK(bench.is_there(again, 40));  // the newest stays
  CHECK_FALSE(bench.is_there(again, 17));
}

TEST_CASE("steps: with one family none moves, and its pages fill the budget less the reserve") {
  TwoFamilies bench;
  bench.serve();
  BenchRank rank = bench.attach_space(first_space(), 0);

  bench.store_each(rank, 1, 60);

  CHECK(bench.counters().steps_moved == 0);
  CHECK(bench.ledger().charged_bytes() <= bench.ledger().budget_bytes());
  const Slab& slab = bench.slab_of(0);
  CHECK(slab.live_count() == 24);
  const std::uint32_t reserve =
      bench.engine->core().family_of(SlabId{0}).shares[0].reserve_slots;
  CHECK(slab.slots_max() == 24 + reserve);
  CHECK(bench.ledger().budget_bytes() < slab.file_bytes() + slab.step_bytes(0));
}

TEST_CASE("steps: a family that is older than every step of another evicts its own pages") {
  TwoFamilies bench;
  bench.serve();
  BenchRank first = bench.attach_space(first_space(), 0);
  BenchRank second = bench.attach_space(other_space(), 0);
  bench.store_each(first, 1, 12);
  bench.store_each(second, 1, 12);
  bench.store_each(first, 13, 60);  // takes what there is
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t number = 60; number > 40; --number) {
      (void)bench.is_there(first, number);
    }
  }
  const std::uint32_t stored = bench.stored_of(first, 41, 60);
  const std::uint64_t moved = bench.counters().steps_moved;
  REQUIRE(stored > 5);

  bench.store_each(second, 13, 13);

  CHECK(bench.counters().steps_moved == moved);
  CHECK(bench.stored_of(second, 13, 13) == 1);
  CHECK(bench.stored_of(first, 41, 60) == stored);
}

TEST_CASE("steps: a leased page keeps its step, whoever needs room") {
  TwoFamilies bench;
  bench.serve();
  BenchRank first = bench.attach_space(first_space(), 0);
  bench.store_each(first, 1, 24);
  const auto leased = bench.run(first, {.verb = Verb::reload, .pages = {1, 2}});
  REQUIRE(leased.entry.code == 0);
  const SlotId slot = bench.part(1, 0).slot;
  BenchRank second = bench.attach_space(other_space(), 0);

  bench.store_each(second, 1, 12);

  CHECK(bench.counters().steps_moved > 0);
  CHECK(bench.part(1, 0).slot == slot);
  CHECK(bench.slab_of(0).step_state(bench.slab_of(0).step_of(slot)) == StepState::open);
}

TEST_CASE("steps: a slab whose pages are all leased gets the old steps of another family") {
  TwoFamilies bench;
  bench.serve();
  BenchRank first = bench.attach_space(first_space(), 0);
  bench.store_each(first, 1, 40);
  BenchRank second = bench.attach_space(other_space(), 0);

  for (std::uint32_t number = 1; number <= 6; ++number) {
    bench.store_each(second, number, number);
    REQUIRE(bench.run(second, {.verb = Verb::reload, .pages = {number}}).entry.code == 0);
  }

  CHECK(bench.counters().spill_failures == 0);
  CHECK(bench.stored_of(second, 1, 6) == 6);
}

TEST_CASE("steps: a disk that is full is told once, and what there is goes on to serve") {
  TwoFamilies bench;
  bench.serve();
  BenchRank rank = bench.attach_space(first_space(), 0);
  bench.store_each(rank, 1, 8);
  sim::FaultPlan plan;
  plan.write_no_space = 10'000;
  bench.disk.set_plan(plan);
  bench.fill(rank, 0, 9);
  const auto refused = bench.run(rank, {.verb = Verb::store, .pages = {9}, .ack = Ack::durable});
  CHECK(refused.entry.code == static_cast<std::int32_t>(Code::no_space));
  CHECK(bench.counters().steps_failed > 0);
  CHECK(bench.on_disk() <= bench.ledger().charged_bytes());
  bench.disk.set_plan({});

  bench.run_for(2000);
  bench.store_each(rank, 10, 30);

  CHECK(bench.stored_of(rank, 30, 30) == 1);
}

TEST_CASE("steps: a budget below use at a start is reached by the oldest pages, and kept") {
  TwoFamilies bench;
  bench.serve();
  BenchRank rank = bench.attach_space(first_space(), 0);
  bench.store_each(rank, 1, 24);
  bench.options.spaces.l3_bytes = bench.ledger().charged_bytes() * 2 / 3;

  bench.restart();

  bench.run_until([&] { return !bench.ledger().over_budget(); });
  CHECK(bench.on_disk() <= bench.options.spaces.l3_bytes);
  BenchRank again = bench.attach_space(first_space(), 0);
  CHECK(bench.is_there(again, 24));
  CHECK_FALSE(bench.is_there(again, 1));
  bench.store_each(again, 101, 140);
  CHECK(bench.stored_of(again, 140, 140) == 1);
}

TEST_CASE("steps: what a crash leaves of a grant or of a punch is put right by the next start") {
  for (int life = 0; life < 40; ++life) {
    TwoFamilies bench(8);
    bench.serve();
    BenchRank first = bench.attach_space(first_space(), 0);
    bench.store_each(first, 1, 8);
    BenchRank second = bench.attach_space(other_space(), 0);
    bench.fill(second, 0, 1);
    bench.submit(second, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
    for (int steps = 0; steps < life; ++steps) {
      bench.step();
    }

    bench.kill(life % 2 == 0 ? sim::Crash::process : sim::Crash::power);
    bench.start(ColdStartMode::load);

    CHECK(bench.ledger().charged_bytes() <= bench.ledger().budget_bytes());
    CHECK(bench.on_disk() <= bench.ledger().charged_bytes());
    BenchRank again = bench.attach_space(other_space(), 0);
    bench.store(again, {2});
    CHECK(bench.stored_of(again, 2, 2) == 1);
  }
}

TEST_CASE("volumes: pages spread over all of them, by free room, and are there after a load") {
  TwoFamilies bench;
  const std::uint64_t bytes = bench.options.spaces.l3_bytes;
  bench.options.spaces.volume_bytes = {bytes, bytes, 2 * bytes};
  bench.serve();
  BenchRank rank = bench.attach_space(first_space(), 0);

  bench.store_each(rank, 1, 40);

  for (std::uint16_t volume = 0; volume < 3; ++volume) {
    CHECK(bench.slab_of(0, volume).live_count() >= 8);
    CHECK(bench.on_disk(volume) <= bench.ledger(volume).budget_bytes());
  }
  CHECK(bench.slab_of(0, 2).live_count() > bench.slab_of(0, 1).live_count());
  bench.restart();
  BenchRank again = bench.attach_space(first_space(), 0);
  CHECK(bench.stored_of(again, 1, 40) == 40);
}

TEST_CASE("volumes: when all are full the oldest page of all goes") {
  TwoFamilies bench(8);
  const std::uint64_t bytes = bench.options.spaces.l3_bytes;
  bench.options.spaces.volume_bytes = {bytes, bytes};
  bench.serve();
  BenchRank rank = bench.attach_space(first_space(), 0);

  bench.store_each(rank, 1, 40);

  CHECK(bench.stored_of(rank, 25, 40) == 16);
  CHECK(bench.stored_of(rank, 1, 24) == 0);
}

TEST_CASE("volumes: one whose disk is full draws no page while others can evict for it") {
  TwoFamilies bench(8);
  const std::uint64_t bytes = bench.options.spaces.l3_bytes;
  bench.options.spaces.volume_bytes = {bytes, bytes};
  bench.serve();
  BenchRank rank = bench.attach_space(first_space(), 0);
  sim::FaultPlan plan;
  plan.write_no_space = 10'000;
  bench.disk.set_plan(plan);
  bench.fill(rank, 0, 1);
  (void)bench.run(rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  REQUIRE(bench.counters().steps_failed == 1);
  bench.disk.set_plan({});

  bench.store_each(rank, 2, 30);

  CHECK(bench.stored_of(rank, 30, 30) == 1);
}

}  // namespace
