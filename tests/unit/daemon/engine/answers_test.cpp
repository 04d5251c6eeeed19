// SPDX-License-Identifier: Apache-2.0
// answers_test: a session layer that acts inside of an answer: every operation still ends once.
// Covers op_ends, verbs, forget_verbs and group_commit.
#include <map>

#include "unit/daemon/engine/engine_bench.h"

namespace {

using namespace hc;
using hc::test::BenchRank;
using hc::test::EngineBench;

// Ends the session of `rank` inside of the first answer, and counts the terminal ones.
struct Ending : EngineBench {
  Ending() {
    start(ColdStartMode::clear);
    rank = attach(0);
    store(rank, {1, 2, 3});
  }
  void arm() {
    on_answer = [this](const CompletionEntry& entry) {
      ends[entry.op_sequence] += entry.terminal;
      if (!ended_session) {
        ended_session = true;
        engine->end_service(rank.session);
      }
    };
  }
  void expect_ended(std::size_t operations) {
    run_until([&] { return engine->is_quiet(rank.session); });
    CHECK(ends.size() == operations);
    for (const auto& [sequence, count] : ends) {
      CAPTURE(sequence);
      CHECK(count == 1U);
    }
    engine->release_leases(rank.session);
    engine->close_session(rank.session);
  }
  BenchRank rank;
  std::map<std::uint64_t, std::uint32_t> ends;
  bool ended_session = false;
};

TEST_CASE("the session may end inside of the answer of one of its operations") {
  Ending bench;
  bench.drop_l2();
  bench.arm();
  for (const std::uint32_t page : {1U, 2U, 3U}) {
    bench.submit(bench.rank, {.verb = Verb::load, .pages = {page}});
  }
  bench.submit(bench.rank, {.verb = Verb::store, .pages = {7, 8}, .ack = Ack::durable});

  bench.expect_ended(4);
}

TEST_CASE("the session may end inside of a report that is not the last one") {
  Ending bench;
  bench.arm();
  bench.submit(bench.rank, {.verb = Verb::store,
                            .pages = {7},
                            .ack = Ack::durable,
                            .flags = kFlagEveryAck});
  bench.submit(bench.rank, {.verb = Verb::store,
                            .pages = {8},
                            .ack = Ack::durable,
                            .flags = kFlagEveryAck});

  bench.expect_ended(2);
}

TEST_CASE("the session may end inside of the report that an operation is late") {
  Ending bench;
  bench.copier.set_delay(300 * kNsPerMs);
  bench.arm();
  for (const std::uint32_t page : {1U, 2U, 3U}) {
    bench.submit(bench.rank, {.verb = Verb::load, .pages = {page}, .deadline_ms = 20});
  }

  bench.expect_ended(3);
}

TEST_CASE("the session may end inside of the answer that a cancel causes") {
  Ending bench;
  bench.drop_l2();
  bench.disk.set_read_delay(1000 * kNsPerMs);
  const std::uint16_t target = bench.submit(bench.rank, {.verb = Verb::load, .pages = {1}});
  bench.arm();
  OpRequest cancel;
  cancel.entry.verb = static_cast<std::uint8_t>(Verb::cancel);
  cancel.entry.op_slot = 40;
  cancel.entry.op_sequence = 1000;
  cancel.entry.deadline_ms = 1000;
  cancel.entry.target_slot = target;
  cancel.entry.target_sequence = 2;

  bench.engine->submit(bench.rank.session, cancel);

  bench.expect_ended(2);
}

TEST_CASE("the session may end inside of the answers of a clear that ends its frees") {
  Ending bench;
  bench.index.set_plan([] {
    sim::FaultPlan plan;
    plan.commit_error = 10'000;
    return plan;
  }());
  bench.arm();
  bench.submit(bench.rank, {.verb = Verb::free_object, .pages = {1}});
  bench.submit(bench.rank, {.verb = Verb::free_object, .pages = {2}});
  bench.submit(bench.rank, {.verb = Verb::pin, .pages = {3}});

  REQUIRE(bench.engine->start_clear());
  bench.index.set_plan({});

  CHECK(bench.finish_order());
  bench.expect_ended(3);
}

}  // namespace
