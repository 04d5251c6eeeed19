// SPDX-License-Identifier: Apache-2.0
// store_heir_test: of concurrent stores of one part another goes on when the first has ended.
#include <algorithm>

#include "unit/daemon/engine/rebuild_bench.h"

namespace {

using namespace hc;
using hc::test::BenchRank;
using hc::test::EngineBench;
using hc::test::code;
using hc::test::lose_index;

// Several ranks of one shard, each with page 1 in its first row.
struct Rivals : EngineBench {
  explicit Rivals(std::uint32_t count, std::uint32_t pages_l2 = 16) : EngineBench(16, pages_l2) {
    start(ColdStartMode::clear);
    for (std::uint32_t i = 0; i < count; ++i) {
      ranks.push_back(attach(0));
      fill(ranks.back(), 0, 1);
    }
  }
  std::uint16_t store(std::uint32_t rank, Ack ack = Ack::resident,
                      std::uint32_t deadline_ms = 60'000) {
    return submit(ranks[rank], {.verb = Verb::store,
                                .pages = {1},
                                .ack = ack,
                                .deadline_ms = deadline_ms});
  }
  bool told_late(std::uint16_t slot) {
    return !all(slot).empty() && last(slot).entry.ack == static_cast<std::uint8_t>(Ack::late);
  }
  void ruin(std::uint32_t rank) {
    std::fill(ranks[rank].rows[0].begin(), ranks[rank].rows[0].end(), std::uint8_t{0x66});
  }
  std::uint32_t frames_taken() {
    FramePool& frames = engine->core().spaces->family(FamilyNo{}).frames[0];
    return frames.frame_count() - frames.free_count();
  }
  std::vector<BenchRank> ranks;
};

TEST_CASE("a store that waits for a late one goes on at once, from its own memory") {
  Rivals bench(2);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t late = bench.store(0, Ack::resident, 20);
  const std::uint16_t waiting = bench.store(1, Ack::durable);
  bench.run_until([&] { return bench.copier.in_flight() == 1; });
  bench.copier.set_delay(0);
  bench.run_until([&] { return bench.told_late(late); });
  bench.ruin(0);  // the engine goes on as for a miss; the copy that still runs may read this

  const auto answer = bench.finish(waiting);
  CHECK(answer.entry.code == code(Code::ok));
  CHECK(answer.entry.pages_stored == 1);
  CHECK(answer.entry.bytes == EngineBench::kPayload);
  CHECK_FALSE(bench.ended(late));
  CHECK(bench.frames_taken() == 2);  // the late copy has a frame of its own until it ends
  CHECK(bench.load(bench.ranks[1], 1) == 0U);

  CHECK(bench.finish(late).entry.code == code(Code::timed_out));
  CHECK(bench.frames_taken() == 1);
  CHECK(bench.load(bench.ranks[1], 1) == 0U);
  CHECK(bench.all(late).size() == 2);
  CHECK(bench.all(waiting).size() == 1);
  CHECK(bench.engine->core().counters.stores_promoted == 1);
}

TEST_CASE("with one frame the heir waits for the end of the late copy, then takes it") {
  Rivals bench(2, 1);  // one page: a frame for each of the two shards
  BenchRank other = bench.attach(1);
  bench.fill(other, 0, 9);
  bench.run(other, {.verb = Verb::store,
                    .pages = {9},
                    .ack = Ack::resident,
                    .flags = kFlagKeepLease});
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t late = bench.store(0, Ack::resident, 20);
  const std::uint16_t waiting = bench.store(1, Ack::resident);
  bench.run_until([&] { return bench.told_late(late); });
  bench.ruin(0);
  CHECK(bench.copier.in_flight() == 1);

  CHECK(bench.finish(late).entry.code == code(Code::timed_out));
  CHECK_FALSE(bench.ended(waiting));
  CHECK(bench.finish(waiting).entry.code == code(Code::ok));
  CHECK(bench.load(bench.ranks[1], 1) == 0U);
}

TEST_CASE("a session that dies in the middle of its copy leaves the part to the next in line") {
  Rivals bench(4);
  bench.copier.set_delay(300 * kNsPerMs);
  std::vector<std::uint16_t> slots;
  for (std::uint32_t i = 0; i < 4; ++i) {
    slots.push_back(bench.store(i, Ack::written));
  }
  bench.run_until([&] { return bench.copier.in_flight() == 1; });
  bench.engine->end_service(bench.ranks[0].session);
  bench.ruin(0);
  bench.step();
  REQUIRE(bench.copier.in_flight() == 2);  // the second in line copies, nobody else
  bench.engine->end_service(bench.ranks[1].session);
  bench.ruin(1);

  CHECK(bench.finish(slots[2]).entry.code == code(Code::ok));
  CHECK(bench.finish(slots[3]).entry.code == code(Code::ok));
  CHECK(bench.last(slots[2]).entry.pages_stored == 1);
  CHECK(bench.last(slots[3]).entry.pages_stored == 0);
  bench.run_until([&] { return bench.engine->is_quiet(bench.ranks[1].session); });
  CHECK(bench.last(slots[0]).entry.code == code(Code::cancelled));
  CHECK(bench.last(slots[1]).entry.code == code(Code::cancelled));
  CHECK(bench.engine->core().counters.stores_promoted == 2);
  CHECK(bench.frames_taken() == 1);
  CHECK(bench.load(bench.ranks[3], 1) == 0U);
}

TEST_CASE("a store that ends while all of its copies have just been made ends once, and in order") {
  Rivals bench(2);
  bench.fill(bench.ranks[0], 1, 2);
  bench.copier.set_delay(20 * kNsPerMs);
  const std::uint16_t store = bench.submit(
      bench.ranks[0], {.verb = Verb::store, .pages = {1, 2}, .ack = Ack::resident});
  const std::uint16_t load = bench.submit(bench.ranks[1], {.verb = Verb::load, .pages = {2}});
  REQUIRE(bench.copier.in_flight() == 2);
  bench.clock.tick(30 * kNsPerMs);

  // The load misses page 2, looks at the copier, and hears of both copies in the middle of the end.
  bench.engine->end_service(bench.ranks[0].session);

  CHECK(bench.finish(load).entry.code == code(Code::not_found));
  CHECK(bench.finish(store).entry.code == code(Code::cancelled));
  CHECK(bench.all(store).size() == 1);
  CHECK(bench.frames_taken() == 0);
  CHECK(bench.laws.count() == 0);
}

TEST_CASE("a copy that had not begun gives its own frame to the heir") {
  Rivals bench(2, 1);
  bench.copier.set_jobs_max(0);  // nothing starts
  const std::uint16_t first = bench.store(0);
  const std::uint16_t waiting = bench.store(1);
  const auto cancelled = [&] {
    bench.engine->end_service(bench.ranks[0].session);
    return bench.last(first).entry.code;
  };
  CHECK(cancelled() == code(Code::cancelled));
  bench.copier.set_jobs_max(kCopyJobsMax);

  CHECK(bench.finish(waiting).entry.code == code(Code::ok));
  CHECK(bench.load(bench.ranks[1], 1) == 0U);
}

TEST_CASE("memory that can't be touched costs its own store only") {
  Rivals bench(2);
  sim::FaultPlan plan;
  plan.memory_fault = 10'000;
  bench.copier.set_plan(plan);
  const std::uint16_t first = bench.store(0, Ack::durable);
  const std::uint16_t waiting = bench.store(1, Ack::durable);
  bench.copier.set_plan({});  // a copy's fault is drawn when it begins

  CHECK(bench.finish(waiting).entry.code == code(Code::ok));
  CHECK(bench.last(first).entry.code == code(Code::memory_fault));
  bench.drop_l2();
  CHECK(bench.load(bench.ranks[1], 1) == 1U);
}

TEST_CASE("a store whose deadline comes while it waits is over at once, the first goes on") {
  Rivals bench(3);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t first = bench.store(0);
  const std::uint16_t brief = bench.store(1, Ack::resident, 20);
  const std::uint16_t waiting = bench.store(2);

  CHECK(bench.finish(brief).entry.code == code(Code::timed_out));
  CHECK(bench.all(brief).size() == 1);  // no copy of it ever ran: it is not late
  CHECK_FALSE(bench.ended(first));
  CHECK(bench.finish(first).entry.code == code(Code::ok));
  CHECK(bench.finish(waiting).entry.code == code(Code::ok));
  CHECK(bench.engine->core().counters.stores_promoted == 0);
}

TEST_CASE("a page that is twice in one store is never its own heir, and one heir serves both") {
  Rivals bench(2);
  bench.fill(bench.ranks[1], 1, 1);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t first = bench.submit(
      bench.ranks[0],
      {.verb = Verb::store, .pages = {1, 1}, .ack = Ack::resident, .deadline_ms = 20});
  const std::uint16_t twice = bench.submit(
      bench.ranks[1], {.verb = Verb::store, .pages = {1, 1}, .ack = Ack::durable});
  bench.run_until([&] { return bench.told_late(first); });
  bench.copier.set_delay(0);

  CHECK(bench.finish(twice).entry.code == code(Code::ok));
  CHECK(bench.last(twice).entry.pages_stored == 1);
  CHECK(bench.finish(first).entry.code == code(Code::timed_out));
  CHECK(bench.engine->core().ops.items_free() == bench.engine->core().ops.items_max());
}

TEST_CASE("a store that waits for a read which fails fills the part, and its word is durable") {
  Rivals bench(2);
  bench.EngineBench::store(bench.ranks[0], {1});
  bench.drop_l2();
  bench.rewrite_header(1, 0, [](BlobHeader& header) { header.generation += 7; });
  bench.disk.set_read_delay(100 * kNsPerMs);
  BenchRank reader = bench.attach(0);
  const std::uint16_t load = bench.submit(reader, {.verb = Verb::load, .pages = {1}});
  const std::uint16_t waiting = bench.store(1, Ack::durable);

  CHECK(bench.finish(waiting).entry.code == code(Code::ok));
  CHECK(bench.last(waiting).entry.ack == static_cast<std::uint8_t>(Ack::durable));
  CHECK(bench.finish(load).entry.code == code(Code::ok));
  CHECK(bench.row_holds(reader, 0, 1));
  bench.restart();
  BenchRank next = bench.attach(0);
  CHECK(bench.load(next, 1) == 1U);
}

TEST_CASE("a flush that comes while the first store runs waits for its heir") {
  Rivals bench(2);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t first = bench.store(0, Ack::resident, 20);
  bench.store(1, Ack::resident);
  const std::uint16_t flush = bench.submit(bench.ranks[1], {.verb = Verb::flush});
  bench.finish(first);
  CHECK_FALSE(bench.ended(flush));

  CHECK(bench.finish(flush).entry.code == code(Code::ok));
  CHECK(bench.part(1, 0).l3 == L3State::durable);
}

TEST_CASE("a load that waits for a store gets the bytes of its heir; with none it is a miss") {
  const bool heir = GENERATE(true, false);
  CAPTURE(heir);
  Rivals bench(3);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t first = bench.store(0, Ack::resident, 20);
  const std::uint16_t load = bench.submit(bench.ranks[2], {.verb = Verb::load, .pages = {1}});
  if (heir) {
    bench.store(1);
  }
  bench.ruin(2);
  bench.run_until([&] { return bench.told_late(first); });
  bench.ruin(0);

  CHECK(bench.finish(load).entry.code == code(heir ? Code::ok : Code::not_found));
  CHECK(bench.row_holds(bench.ranks[2], 0, 1) == heir);
}

TEST_CASE("a load that waits for a store over a stored copy finds that copy when the store ends") {
  Rivals bench(2);
  bench.EngineBench::store(bench.ranks[0], {1});
  bench.drop_l2();
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t first = bench.submit(bench.ranks[0], {.verb = Verb::store,
                                                            .pages = {1},
                                                            .ack = Ack::resident,
                                                            .flags = kFlagKeepLease,
                                                            .deadline_ms = 20});
  const std::uint16_t load = bench.submit(bench.ranks[1], {.verb = Verb::load, .pages = {1}});
  bench.ruin(1);
  bench.run_until([&] { return bench.told_late(first); });
  bench.ruin(0);

  CHECK(bench.finish(load).entry.code == code(Code::ok));
  CHECK(bench.row_holds(bench.ranks[1], 0, 1));
  CHECK(bench.engine->core().counters.reads == 1);
}

TEST_CASE("a page that is forgotten while stores wait for it is nobody's, and they may try again") {
  Rivals bench(2);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t first = bench.store(0);
  const std::uint16_t waiting = bench.store(1);
  bench.run_until([&] { return bench.copier.in_flight() == 1; });
  bench.submit(bench.ranks[0], {.verb = Verb::free_object, .pages = {1}});

  CHECK(bench.finish(first).entry.code == code(Code::retry));
  CHECK(bench.finish(waiting).entry.code == code(Code::retry));
  bench.copier.set_delay(0);
  bench.run_for(500);
  CHECK_FALSE(bench.is_there(bench.ranks[0], 1));
  CHECK(bench.frames_taken() == 0);
}

TEST_CASE("a page that is forgotten while an abandoned copy runs goes with the end of that copy") {
  Rivals bench(1);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t late = bench.store(0, Ack::resident, 20);
  bench.run_until([&] { return bench.told_late(late); });
  bench.copier.set_delay(0);
  const std::uint16_t again = bench.store(0, Ack::resident);  // starts anew beside the late copy
  CHECK(bench.finish(again).entry.code == code(Code::ok));
  const std::uint16_t gone =
      bench.submit(bench.ranks[0], {.verb = Verb::free_object, .pages = {1}});
  CHECK(bench.finish(late).entry.code == code(Code::timed_out));
  CHECK(bench.finish(gone).entry.code == code(Code::ok));
  CHECK(bench.frames_taken() == 0);
}

TEST_CASE("a reload that waits for the read of another goes on when that one is cancelled") {
  Rivals bench(2);
  bench.EngineBench::store(bench.ranks[0], {1});
  bench.drop_l2();
  bench.disk.set_read_delay(100 * kNsPerMs);
  const std::uint16_t first = bench.submit(bench.ranks[0], {.verb = Verb::reload, .pages = {1}});
  const std::uint16_t second = bench.submit(bench.ranks[1], {.verb = Verb::reload, .pages = {1}});
  bench.run_for(1);
  bench.engine->end_service(bench.ranks[0].session);
  CHECK(bench.last(first).entry.code == code(Code::cancelled));

  const auto answer = bench.finish(second);
  CHECK(answer.entry.code == code(Code::ok));
  CHECK(answer.entry.lease != 0);
  CHECK(bench.engine->core().counters.reads == 1);
}

TEST_CASE("a late store with no heir lets a rebuild go on in the same turn") {
  Rivals bench(1);
  bench.finish(bench.store(0, Ack::durable));
  lose_index(bench);
  bench.ranks[0] = bench.attach(0);
  bench.fill(bench.ranks[0], 0, 1);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t late = bench.store(0, Ack::resident, 20);
  REQUIRE(bench.engine->rebuilding());

  bench.run_until([&] { return bench.told_late(late); });

  CHECK(bench.copier.in_flight() == 1);
  CHECK_FALSE(bench.engine->rebuilding());
  CHECK(bench.finish(late).entry.code == code(Code::timed_out));
  CHECK(bench.load(bench.ranks[0], 1) == 1U);
  CHECK(bench.engine->core().counters.slots_adopted == 1);
}

}  // namespace
