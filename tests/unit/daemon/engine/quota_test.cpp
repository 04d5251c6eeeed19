// SPDX-License-Identifier: Apache-2.0
// quota_test: a reload or a store that keeps its lease is never refused for lack of room within the
// quota of its group. It may wait, and holds nothing meanwhile. daemon/engine/quota_gate.cpp
#include <numeric>

#include "proto/budget.h"
#include "unit/daemon/engine/quota_bench.h"

namespace hc::test {
namespace {

TEST_CASE("quota: a reload waits while memory is full of unwritten pages, and is never refused") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  bench.store(rank, pages_from(1, 8));
  bench.fill_with_unwritten();
  const std::uint16_t reload = bench.submit(rank, bench.reload(1, 8));
  bench.run_for(200);
  CHECK_FALSE(bench.ended(reload));
  CHECK(bench.group().leased_pages() == 0);
  CHECK(bench.engine->core().leases.leases_open() == 0);
  CHECK(bench.engine->core().catalog->page(bench.page(1)).holds == 0);

  bench.disk.hold_volume(0, false);

  CHECK(bench.finish(reload).entry.code == code(Code::ok));
  CHECK(bench.group().leased_pages() == 8);
  CHECK(bench.counters().quota_waits == 1);
  CHECK(bench.counters().operations_busy == 0);
}

TEST_CASE("quota: a store that keeps its lease waits before it touches its client's memory") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  bench.fill_with_unwritten();
  bench.fill(rank, 0, 1);
  const std::uint16_t store = bench.submit(rank, QuotaBench::keep(1, 1));
  const std::uint64_t copies = bench.copier.submitted();
  bench.run_for(200);
  CHECK_FALSE(bench.ended(store));
  CHECK(bench.copier.submitted() == copies);
  CHECK(bench.page(1) == kNoPage);

  bench.disk.hold_volume(0, false);

  CHECK(bench.finish(store).entry.code == code(Code::ok));
  CHECK(bench.is_there(rank, 1));
}

TEST_CASE("quota: while one waits for memory nobody else takes what comes free") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  bench.store(rank, pages_from(1, 8));
  bench.store(bench.other, {90});
  bench.fill_with_unwritten(1);  // a frame is free, which is not enough
  const std::uint16_t reload = bench.submit(rank, bench.reload(1, 8));
  const std::uint16_t load = bench.submit(bench.other, {.verb = Verb::load, .pages = {90}});
  bench.run_for(50);
  CHECK(bench.answer_now(bench.other, {.verb = Verb::store, .pages = {91}}) == Code::busy);
  CHECK(bench.answer_now(rank, {.verb = Verb::store, .pages = {91}}) == Code::busy);
  CHECK(bench.answer_now(bench.other, bench.reload(90, 1)) == Code::busy);
  CHECK(bench.part(90, 1).l2 == L2State::absent);

  bench.disk.hold_volume(0, false);

  CHECK(bench.finish(reload).entry.code == code(Code::ok));
  CHECK(bench.finish(load).entry.code == code(Code::ok));
  bench.store(bench.other, {91});
}

TEST_CASE("quota: what waits for nobody any more keeps nobody from memory") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  bench.store(rank, pages_from(1, 8));
  bench.fill_with_unwritten(1);
  bench.submit(rank, bench.reload(1, 8));
  bench.engine->end_service(rank.session);
  bench.run_for(1);

  CHECK(bench.run(bench.other, {.verb = Verb::store, .pages = {91}, .ack = Ack::resident})
            .entry.code == 0);
}

TEST_CASE("quota: a rank waits until the others of its group have released what they drop") {
  QuotaBench bench;
  BenchRank first = bench.attach_quota(0, 4);
  BenchRank second = bench.attach_quota(1, 4);
  bench.store_both(first, second, 8);
  const auto mine = bench.run(first, bench.reload(1, 4)).entry.lease;
  const auto theirs = bench.run(second, bench.reload(1, 4)).entry.lease;
  CHECK(bench.group().leased_pages() == 4);  // a page counts once, whoever leases it
  bench.run(first, {.verb = Verb::release, .lease = mine});

  const std::uint16_t next = bench.submit(first, bench.reload(5, 4));
  bench.run_for(50);
  CHECK_FALSE(bench.ended(next));
  CHECK(bench.run(second, {.verb = Verb::release, .lease = theirs}).entry.code == 0);

  CHECK(bench.finish(next).entry.code == code(Code::ok));
  CHECK(bench.counters().quota_refused == 0);
}

TEST_CASE("quota: one that waits for its group keeps nobody else from memory") {
  QuotaBench bench;
  BenchRank first = bench.attach_quota(0, 4);
  BenchRank second = bench.attach_quota(1, 4);
  bench.store_both(first, second, 8);
  CHECK(bench.run(second, bench.reload(1, 4)).entry.code == 0);
  const std::uint16_t waiting = bench.submit(first, bench.reload(5, 4));
  bench.run_for(50);

  bench.store(bench.other, {90});

  CHECK_FALSE(bench.ended(waiting));
}

TEST_CASE("quota: what is beyond the session's own quota is refused at once") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 4);
  bench.store(rank, pages_from(1, 8));
  const auto lease = bench.run(rank, bench.reload(1, 3)).entry.lease;

  CHECK(bench.answer_now(rank, bench.reload(4, 2)) == Code::no_space);
  CHECK(bench.answer_now(rank, QuotaBench::keep(4, 2)) == Code::no_space);
  CHECK(bench.answer_now(rank, {.verb = Verb::pin, .pages = {4, 5}}) == Code::no_space);
  CHECK(bench.counters().quota_refused == 3);

  bench.run(rank, {.verb = Verb::release, .lease = lease});
  CHECK(bench.run(rank, bench.reload(4, 2)).entry.code == 0);
}

TEST_CASE("quota: what waits counts, so that two that fit alone do not wait for each other") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 4);
  bench.store(rank, pages_from(1, 8));
  bench.fill_with_unwritten();
  const std::uint16_t reload = bench.submit(rank, bench.reload(1, 3));

  CHECK(bench.answer_now(rank, bench.reload(4, 2)) == Code::no_space);

  bench.disk.hold_volume(0, false);
  CHECK(bench.finish(reload).entry.code == code(Code::ok));
}

TEST_CASE("quota: operations of a session get their room in the order in which they came") {
  QuotaBench bench;
  BenchRank first = bench.attach_quota(0, 4);
  BenchRank second = bench.attach_quota(1, 4);
  bench.store_both(first, second, 8);
  const auto lease = bench.run(second, bench.reload(1, 2)).entry.lease;
  const std::uint16_t large = bench.submit(first, bench.reload(5, 3));
  const std::uint16_t small = bench.submit(first, bench.reload(8, 1));
  bench.run_for(50);
  CHECK_FALSE(bench.ended(small));  // there is room for it, but not before the other one

  bench.run(second, {.verb = Verb::release, .lease = lease});

  CHECK(bench.finish(large).entry.code == 0);
  CHECK(bench.finish(small).entry.code == 0);
}

TEST_CASE("quota: a deadline that passes while it waits is timed_out, and nothing is left") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  bench.store(rank, pages_from(1, 8));
  bench.fill_with_unwritten();
  EngineBench::Call call = bench.reload(1, 8);
  call.deadline_ms = 300;

  CHECK(bench.run(rank, call).entry.code == code(Code::timed_out));
  CHECK(bench.group().leased_pages() == 0);
  for (std::uint32_t number = 1; number <= 8; ++number) {
    CHECK(bench.engine->core().catalog->page(bench.page(number)).holds == 0);
  }
  bench.disk.hold_volume(0, false);
  bench.run_for(100);
  CHECK(bench.run(rank, bench.reload(1, 8)).entry.code == 0);  // what had waited counts no more
  CHECK(bench.run(bench.other, {.verb = Verb::store, .pages = {91}, .ack = Ack::resident})
            .entry.code == 0);
}

TEST_CASE("quota: a flush goes behind the stores that wait before it") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  bench.fill_with_unwritten();
  bench.fill(rank, 0, 1);
  const std::uint16_t store = bench.submit(rank, QuotaBench::keep(1, 1));
  const std::uint16_t flush = bench.submit(rank, {.verb = Verb::flush});
  bench.run_for(50);
  bench.disk.hold_volume(0, false);

  CHECK(bench.finish(flush).entry.code == 0);
  REQUIRE(bench.ended(store));
  CHECK(bench.part(1, 0).l3 == L3State::durable);
}

TEST_CASE("quota: a waiting store is told that its page is forgotten, and does not bring it back") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  bench.fill_with_unwritten();
  const std::uint16_t one = bench.submit(rank, QuotaBench::keep(1, 1));
  const std::uint16_t two = bench.submit(rank, QuotaBench::keep(2, 1));
  bench.submit(bench.other, {.verb = Verb::free_object, .pages = {1}});
  CHECK(bench.last(one).entry.code == code(Code::retry));
  CHECK_FALSE(bench.ended(two));

  REQUIRE(bench.engine->start_clear_space(rank.space));

  CHECK(bench.last(two).entry.code == code(Code::retry));
  bench.disk.hold_volume(0, false);
  CHECK(bench.finish_order());
  CHECK(bench.page(1) == kNoPage);
}

TEST_CASE("quota: leases of others stay out of what is reserved, and of the slack") {
  QuotaBench bench;
  bench.store(bench.other, pages_from(1, 8));
  BenchRank rank = bench.attach_quota(0, 8);
  // 16 pages: 8 are reserved, 2 are for operations in flight.
  CHECK(bench.answer_now(bench.other, bench.reload(1, 7)) == Code::busy);
  CHECK(bench.run(bench.other, bench.reload(1, 6)).entry.code == 0);
  CHECK(bench.run(bench.other, bench.reload(1, 6)).entry.code == 0);  // the same pages again
  CHECK(bench.answer_now(bench.other, QuotaBench::keep(50, 1)) == Code::busy);
  CHECK(bench.run(rank, QuotaBench::keep(60, 8)).entry.code == 0);
}

TEST_CASE("quota: frames that a rank copies at its own pace stay out of what is reserved") {
  QuotaBench bench;
  bench.store(bench.other, pages_from(50, 8));
  BenchRank rank = bench.attach_quota(0, 8);
  bench.engine->core().sessions.find(bench.other.session)->regions[0].by_rank = true;
  const Family& family = bench.engine->core().spaces->family(FamilyNo{});
  const std::uint16_t held = bench.submit(
      bench.other, {.verb = Verb::store, .pages = pages_from(60, 6), .ack = Ack::resident});
  CHECK_FALSE(bench.ended(held));  // its rank never says a word
  CHECK(family.with_ranks == 6);

  CHECK(bench.answer_now(bench.other, {.verb = Verb::store, .pages = {70}}) == Code::busy);
  CHECK(bench.answer_now(bench.other, {.verb = Verb::load, .pages = {50}}) == Code::busy);
  bench.store(rank, pages_from(1, 8));
  CHECK(bench.run(rank, bench.reload(1, 8)).entry.code == code(Code::ok));

  bench.engine->end_service(bench.other.session);
  bench.engine->give_up_rank(bench.other.session);
  bench.run_for(1);
  CHECK(bench.ended(held));
  CHECK(family.with_ranks == 0);
}

TEST_CASE("quota: pages of another shard count for their owner, each owner has the whole quota") {
  QuotaBench bench;
  SpaceDescriptor space = bench_space();
  space.model = "owned";
  space.kinds = {{"kv", EngineBench::kPayload, Placement::owned, HitPolicy::all_pages, 0}};
  BenchRank rank = bench.attach_space(space, 0, bench.ask(space, 3));
  CHECK(bench.group().l2_pages == 6);
  EngineBench::Call mine = QuotaBench::keep(1, 3);
  EngineBench::Call theirs = QuotaBench::keep(4, 3);
  theirs.owner = 1;
  EngineBench::Call more = QuotaBench::keep(7, 1);
  more.owner = 1;

  CHECK(bench.run(rank, mine).entry.code == 0);
  CHECK(bench.run(rank, theirs).entry.code == 0);
  CHECK(bench.group().leased == std::vector<std::uint32_t>{3, 3});
  CHECK(bench.answer_now(rank, more) == Code::no_space);
}

TEST_CASE("quota: lease records and operation records of a quota are its own") {
  QuotaBench bench([](EngineOptions& options) {
    options.ops_max = 3 * kOpSlotsPerSession;
    options.leases_max = 2;
    options.lease_nodes_max = 3;
  });
  BenchRank rank = bench.attach_quota(0, 8);
  bench.store(bench.other, {90, 91, 92});
  CHECK(bench.run(bench.other, bench.reload(90, 1)).entry.code == 0);
  CHECK(bench.answer_now(bench.other, bench.reload(90, 3)) == Code::busy);
  CHECK(bench.run(bench.other, bench.reload(91, 1)).entry.code == 0);
  CHECK(bench.answer_now(bench.other, bench.reload(92, 1)) == Code::busy);
  for (std::uint32_t page = 1; page <= 8; ++page) {
    CHECK(bench.run(rank, QuotaBench::keep(page, 1)).entry.code == 0);
  }
  // Operations that go on take records until none is left but those of the quota.
  bench.disk.hold_volume(0, true);
  std::vector<BenchRank> others;
  others.push_back(bench.attach(1));
  others.push_back(bench.attach(1));
  bench.store_unwritten(bench.other, 100, 1);
  std::uint32_t open = 0;
  for (const BenchRank& other : others) {
    for (std::uint32_t i = 0; i < kOpSlotsPerSession; ++i) {
      const std::uint16_t slot = bench.submit(other, {.verb = Verb::flush});
      open += bench.ended(slot) ? 0U : 1U;
    }
  }
  CHECK(open == 2 * kOpSlotsPerSession);
  CHECK(bench.answer_now(bench.other, {.verb = Verb::flush}) == Code::busy);
  const std::uint16_t mine = bench.submit(rank, {.verb = Verb::flush});
  CHECK_FALSE(bench.ended(mine));
  bench.disk.hold_volume(0, false);
  CHECK(bench.finish(mine).entry.code == 0);
}

TEST_CASE("quota: items that are short are waited for") {
  QuotaBench bench([](EngineOptions& options) { options.items_max = 8; });
  BenchRank rank = bench.attach_quota(0, 8);
  bench.disk.hold_volume(0, true);
  const std::uint16_t store = bench.submit(
      bench.other, {.verb = Verb::store, .pages = pages_from(100, 6), .ack = Ack::durable});
  bench.run_for(20);
  const std::uint16_t keep = bench.submit(rank, QuotaBench::keep(1, 4));
  bench.run_for(50);
  CHECK_FALSE(bench.ended(keep));
  CHECK(bench.answer_now(bench.other, {.verb = Verb::store, .pages = {110}}) == Code::busy);

  bench.disk.hold_volume(0, false);

  CHECK(bench.finish(keep).entry.code == 0);
  CHECK(bench.finish(store).entry.code == 0);
}

}  // namespace
}  // namespace hc::test
