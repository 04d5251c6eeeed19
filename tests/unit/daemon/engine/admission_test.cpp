// SPDX-License-Identifier: Apache-2.0
// admission_test: what goes to disk, when, and what a store is told, under each spill policy.
#include <algorithm>

#include "unit/daemon/engine/engine_bench.h"

namespace {

using namespace hc;
using hc::test::Answer;
using hc::test::BenchRank;
using hc::test::EngineBench;
using hc::test::code;

struct Policy : EngineBench {
  explicit Policy(SpillPolicy policy, std::uint32_t pages_l3 = 16, std::uint32_t pages_l2 = 16)
      : EngineBench(pages_l3, pages_l2) {
    options.spill.policy = policy;
    options.spill.dirty_percent = 100;
    start(ColdStartMode::clear);
    rank = attach(0);
  }
  Answer put(const std::vector<std::uint32_t>& pages, Ack ack = Ack::durable,
             std::uint8_t flags = 0, std::uint8_t hint = 0) {
    for (std::uint32_t i = 0; i < pages.size(); ++i) {
      fill(rank, i, pages[i]);
    }
    return run(rank, {.verb = Verb::store, .pages = pages, .ack = ack, .flags = flags,
                      .hint = hint});
  }
  // What has been begun ends; time alone begins nothing.
  void settle() {
    run_for(1000);
    run_for(1000);
  }
  Code flush() { return static_cast<Code>(run(rank, {.verb = Verb::flush}).entry.code); }
  const Catalog& catalog() { return *engine->core().catalog; }
  const Counters& counters() { return engine->core().counters; }
  BenchRank rank;
};

void check_not_durable(const Answer& answer) {
  CHECK(answer.entry.code == code(Code::not_durable));
  CHECK(answer.entry.ack == static_cast<std::uint8_t>(Ack::resident));
  CHECK(answer.entry.terminal == 1);
}

TEST_CASE("write_back: a store that asks for the disk is answered at resident, as not durable") {
  Policy bench(SpillPolicy::write_back);

  const Answer answer = bench.put({1, 2});
  check_not_durable(answer);
  CHECK(answer.entry.page_count == 2);
  CHECK(answer.entry.pages_stored == 2);
  CHECK(bench.put({3}, Ack::resident).entry.code == code(Code::ok));
  bench.settle();

  CHECK(bench.counters().spills == 0);
  CHECK(bench.catalog().pages_held_back() == 3);
  CHECK(bench.engine->bytes_held_back() == 3 * EngineBench::kPayload);
  CHECK(bench.load(bench.rank, 1) == 0U);
}

TEST_CASE("write_back: a lease that was asked for comes with the answer that says not durable") {
  Policy bench(SpillPolicy::write_back);

  const Answer answer = bench.put({1}, Ack::durable, kFlagKeepLease | kFlagEveryAck);
  check_not_durable(answer);
  REQUIRE(answer.entry.lease != 0);
  REQUIRE_FALSE(answer.frames.empty());
  CHECK(answer.frames[0].frame != kNone32);
  const Answer released =
      bench.run(bench.rank, {.verb = Verb::release, .lease = answer.entry.lease});
  CHECK(released.entry.code == code(Code::ok));
}

TEST_CASE("write_back: a flush writes what is held back, and later stores of it are durable") {
  Policy bench(SpillPolicy::write_back);
  bench.put({1, 2});

  CHECK(bench.flush() == Code::ok);
  CHECK(bench.part(1, 0).l3 == L3State::durable);
  CHECK(bench.part(2, 0).l3 == L3State::durable);
  CHECK(bench.catalog().pages_held_back() == 0);
  CHECK(bench.engine->bytes_held_back() == 0);
  CHECK(bench.put({1, 2}).entry.code == code(Code::ok));
  bench.restart();
  BenchRank next = bench.attach(0);
  CHECK(bench.load_all(next, {1, 2}) == Code::ok);
}

TEST_CASE("write_back: a flush takes with it what is being copied in") {
  Policy bench(SpillPolicy::write_back);
  bench.fill(bench.rank, 0, 1);
  const std::uint16_t store =
      bench.submit(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});

  CHECK(bench.flush() == Code::ok);
  CHECK(bench.part(1, 0).l3 == L3State::durable);
  CHECK(bench.finish(store).entry.code == code(Code::ok));
}

TEST_CASE("write_back: the operator's flush writes what is held back") {
  Policy bench(SpillPolicy::write_back);
  bench.put({1});

  const std::uint64_t barrier = bench.engine->barrier_now();
  bench.run_until([&] { return bench.engine->barrier_reached(barrier); });
  CHECK(bench.engine->barrier_result(barrier).has_value());
  CHECK(bench.part(1, 0).l3 == L3State::durable);
}

TEST_CASE("write_back: memory that is needed is on disk first; nothing is lost") {
  Policy bench(SpillPolicy::write_back, 16, 4);
  std::uint32_t busy = 0;
  for (std::uint32_t page = 1; page <= 12; ++page) {
    while (bench.put({page}, Ack::resident).entry.code == code(Code::busy)) {
      ++busy;
      bench.run_for(5);
    }
  }

  CHECK(busy > 0);
  CHECK(bench.counters().parts_dropped_unspilled == 0);
  CHECK(bench.counters().pages_evicted_l2 > 0);
  for (std::uint32_t page = 1; page <= 12; ++page) {
    CHECK(bench.is_there(bench.rank, page));
  }
}

TEST_CASE("write_back: beyond its share of memory the oldest dirty pages are written, no more") {
  Policy bench(SpillPolicy::write_back, 16, 8);
  bench.kill();
  bench.options.spill.dirty_percent = 50;
  bench.start(ColdStartMode::clear);
  bench.rank = bench.attach(0);
  const Family& family = bench.engine->core().spaces->family(FamilyNo{});
  const std::uint32_t frames = family.frames[0].frame_count();
  const std::uint32_t most = frames / 2;
  for (std::uint32_t page = 0; page < most; ++page) {
    bench.put({page}, Ack::resident);
  }
  bench.settle();
  CHECK(bench.counters().spills == 0);

  bench.put({most}, Ack::resident);
  bench.settle();
  CHECK(bench.counters().spills == 1);
  CHECK(bench.part(0, 0).l3 == L3State::durable);
  CHECK(bench.catalog().pages_held_back() == most);
}

TEST_CASE("write_back: on a disk that takes nothing a dirty page is dropped, counted and told") {
  Policy bench(SpillPolicy::write_back, 16, 2);
  sim::FaultPlan plan;
  plan.write_no_space = 10'000;
  bench.set_plan(plan);
  for (std::uint32_t page = 1; page <= 8; ++page) {
    while (bench.put({page}, Ack::resident).entry.code == code(Code::busy)) {
      bench.run_for(5);
    }
  }

  CHECK(bench.counters().parts_dropped_unspilled > 0);
  CHECK(bench.counters().spill_failures >= bench.counters().parts_dropped_unspilled);
  CHECK(bench.flush() == Code::no_space);
}

TEST_CASE("write_back: a stop writes what is held back; selective lets it go") {
  const auto policy = GENERATE(SpillPolicy::write_back, SpillPolicy::selective);
  Policy bench(policy);
  bench.put({1, 2});
  bench.detach(bench.rank);

  bench.run_until([&] { return bench.engine->drained(); });
  bench.restart();
  BenchRank next = bench.attach(0);
  const bool there = policy == SpillPolicy::write_back;
  CHECK(bench.is_there(next, 1) == there);
  CHECK(bench.is_there(next, 2) == there);
}

TEST_CASE("write_back: a page that is forgotten is never written, and holds nothing back") {
  Policy bench(SpillPolicy::write_back);
  bench.put({1});
  const Answer freed = bench.run(bench.rank, {.verb = Verb::free_object, .pages = {1}});

  CHECK(freed.entry.code == code(Code::ok));
  CHECK(bench.engine->bytes_held_back() == 0);
  CHECK(bench.flush() == Code::ok);
  CHECK(bench.counters().spills == 0);
  bench.put({2});
  REQUIRE(bench.engine->start_clear());
  CHECK(bench.finish_order());
  CHECK(bench.engine->bytes_held_back() == 0);
  CHECK(bench.flush() == Code::ok);
  CHECK(bench.counters().spills == 0);
}

TEST_CASE("selective: a page goes to disk with its second use, by store, load or reload") {
  const auto verb = GENERATE(Verb::store, Verb::load, Verb::reload, Verb::pin);
  Policy bench(SpillPolicy::selective);
  check_not_durable(bench.put({1}));
  check_not_durable(bench.put({2}));
  bench.settle();
  CHECK(bench.counters().spills == 0);

  if (verb == Verb::store) {
    CHECK(bench.put({1}).entry.code == code(Code::ok));
  } else {
    CHECK(bench.run(bench.rank, {.verb = verb, .pages = {1}}).entry.code == code(Code::ok));
  }
  bench.settle();
  CHECK(bench.part(1, 0).l3 == L3State::durable);
  CHECK(bench.part(2, 0).l3 == L3State::absent);
}

TEST_CASE("selective: a page that memory has dropped is known when it is stored again") {
  Policy bench(SpillPolicy::selective);
  check_not_durable(bench.put({1}));
  bench.drop_l2();
  CHECK(bench.counters().parts_dropped_unspilled == 1);
  CHECK_FALSE(bench.is_there(bench.rank, 1));  // nothing is there to be used: no use

  CHECK(bench.put({1}).entry.code == code(Code::ok));
  CHECK(bench.part(1, 0).l3 == L3State::durable);
}

TEST_CASE("selective: ranks count for themselves: one use by each is not many") {
  Policy bench(SpillPolicy::selective);
  BenchRank other = bench.attach(1);
  bench.fill(other, 0, 1);
  check_not_durable(bench.put({1}));
  check_not_durable(bench.run(other, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable}));
  CHECK(bench.put({1}).entry.code == code(Code::ok));
  bench.settle();
  CHECK(bench.part(1, 1).l3 == L3State::durable);  // the page goes whole
}

TEST_CASE("selective: a hint that the conversation goes on admits, one-shot uses do not count") {
  Policy bench(SpillPolicy::selective);
  CHECK(bench.put({1}, Ack::durable, 0, kHintMayContinue).entry.code == code(Code::ok));
  for (int use = 0; use < 3; ++use) {
    check_not_durable(bench.put({2}, Ack::durable, 0, kHintOneShot));
  }
}

TEST_CASE("selective: what is admitted and what is held back settle together, as not durable") {
  Policy bench(SpillPolicy::selective);
  bench.put({1}, Ack::durable);
  bench.put({1}, Ack::durable);

  check_not_durable(bench.put({1, 2}));
  CHECK(bench.engine->core().ops.items_free() == bench.engine->core().ops.items_max());
}

TEST_CASE("a store that waits for one whose pages are held back is answered like it") {
  Policy bench(SpillPolicy::write_back);
  BenchRank other = bench.attach(0);
  bench.fill(bench.rank, 0, 1);
  bench.fill(other, 0, 1);
  const std::uint16_t first =
      bench.submit(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::resident});
  const std::uint16_t second =
      bench.submit(other, {.verb = Verb::store, .pages = {1}, .ack = Ack::written});

  CHECK(bench.finish(first).entry.code == code(Code::ok));
  check_not_durable(bench.finish(second));
}

TEST_CASE("write_through holds nothing back") {
  Policy bench(SpillPolicy::write_through);
  CHECK(bench.put({1}).entry.code == code(Code::ok));
  CHECK(bench.counters().parts_held_back == 0);
}

}  // namespace
