// SPDX-License-Identifier: Apache-2.0
// memory_rule_test: client memory belongs to an operation until its terminal answer, and not a
// moment longer. Covers op_ends, copy_desk, disk_fill, store_verb and load_verb.
#include <algorithm>

#include "unit/daemon/engine/engine_bench.h"

namespace {

using namespace hc;
using hc::test::BenchRank;
using hc::test::EngineBench;
using hc::test::code;

TEST_CASE("a load whose read comes after the deadline never writes into the buffer it gave back") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  bench.drop_l2();
  bench.disk.set_read_delay(500 * kNsPerMs);
  std::fill(rank.rows[0].begin(), rank.rows[0].end(), std::uint8_t{0xEE});

  const auto answer =
      bench.run(rank, {.verb = Verb::load, .pages = {1}, .deadline_ms = 20});
  CHECK(answer.entry.code == code(Code::timed_out));
  bench.run_for(2000);  // the read ends long after

  CHECK(std::all_of(rank.rows[0].begin(), rank.rows[0].end(),
                    [](std::uint8_t byte) { return byte == 0xEE; }));
  CHECK(bench.engine->core().counters.reads == 1);
  CHECK(bench.load(rank, 1) == 0U);  // what was read serves the next one
}

TEST_CASE("a load in the middle of its copy at the deadline is late, then ends with the copy") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  bench.copier.set_delay(300 * kNsPerMs);

  const std::uint16_t slot =
      bench.submit(rank, {.verb = Verb::load, .pages = {1}, .deadline_ms = 20});
  bench.run_until([&] { return !bench.all(slot).empty(); });
  CHECK(bench.last(slot).entry.ack == static_cast<std::uint8_t>(Ack::late));
  CHECK(bench.last(slot).entry.code == code(Code::timed_out));
  CHECK(bench.last(slot).entry.terminal == 0);
  CHECK(bench.copier.in_flight() == 1);
  bench.finish(slot);

  CHECK(bench.last(slot).entry.code == code(Code::timed_out));
  CHECK(bench.copier.in_flight() == 0);
  CHECK(bench.all(slot).size() == 2);
}

TEST_CASE("a store whose source changed after late is never published") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.fill(rank, 0, 1);
  bench.copier.set_delay(300 * kNsPerMs);

  const std::uint16_t slot = bench.submit(
      rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::resident, .deadline_ms = 20});
  bench.run_until([&] { return !bench.all(slot).empty(); });
  REQUIRE(bench.last(slot).entry.ack == static_cast<std::uint8_t>(Ack::late));
  std::fill(rank.rows[0].begin(), rank.rows[0].end(), std::uint8_t{0x11});
  bench.finish(slot);
  CHECK(bench.last(slot).entry.code == code(Code::timed_out));
  bench.copier.set_delay(0);
  bench.run_for(1000);

  CHECK_FALSE(bench.is_there(rank, 1));
  CHECK(bench.engine->core().counters.stores_discarded == 1);
  CHECK(bench.index.rows().empty());
  FramePool& frames = bench.engine->core().spaces->family(FamilyNo{}).frames[0];
  CHECK(frames.free_count() == frames.frame_count());
}

TEST_CASE("the end of a session waits for its running copy and publishes nothing of it") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.fill(rank, 0, 1);
  bench.copier.set_delay(300 * kNsPerMs);
  const std::uint16_t slot =
      bench.submit(rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  bench.run_until([&] { return bench.copier.in_flight() == 1; });

  bench.engine->end_service(rank.session);
  CHECK_FALSE(bench.engine->is_quiet(rank.session));
  bench.run_until([&] { return bench.engine->is_quiet(rank.session); });

  CHECK(bench.copier.in_flight() == 0);
  CHECK(bench.last(slot).entry.code == code(Code::cancelled));
  bench.engine->close_session(rank.session);
  BenchRank next = bench.attach(0);
  bench.copier.set_delay(0);
  CHECK_FALSE(bench.is_there(next, 1));
}

TEST_CASE("memory that can't be touched ends the operation alone") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.fill(rank, 0, 1);
  sim::FaultPlan plan;
  plan.memory_fault = 10'000;
  bench.copier.set_plan(plan);

  const auto answer =
      bench.run(rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::resident});
  CHECK(answer.entry.code == code(Code::memory_fault));
  bench.copier.set_plan({});

  bench.store(rank, {1});
  CHECK(bench.is_there(rank, 1));
}

}  // namespace
