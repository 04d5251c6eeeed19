// SPDX-License-Identifier: Apache-2.0
// verbs_test: what each verb does when all is well, and its bounds. Covers verbs, store_verb,
// load_verb, lease_verbs, forget_verbs, page_keeper, spiller, group_commit, spaces and sessions.
#include <algorithm>

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
  }
  BenchRank rank;
};

TEST_CASE("store: acknowledgements come in order, one of them terminal") {
  Served bench;
  bench.fill(bench.rank, 0, 1);

  const std::uint16_t slot = bench.submit(bench.rank, {.verb = Verb::store,
                                                       .pages = {1},
                                                       .ack = Ack::durable,
                                                       .flags = kFlagEveryAck});
  bench.finish(slot);

  const auto& answers = bench.all(slot);
  REQUIRE(answers.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(answers[i].entry.ack == i + 1);
    CHECK(answers[i].entry.terminal == (i == 2 ? 1U : 0U));
    CHECK(answers[i].entry.store_sequence == 1);
  }
  CHECK(answers[2].entry.pages_stored == 1);
  CHECK(answers[2].entry.bytes == EngineBench::kPayload);
}

TEST_CASE("store: a page that is there is touched, not copied again") {
  Served bench;
  bench.store(bench.rank, {1, 2});

  const Answer again =
      bench.run(bench.rank, {.verb = Verb::store, .pages = {1, 2}, .ack = Ack::durable});

  CHECK(again.entry.code == 0);
  CHECK(again.entry.pages_stored == 0);
  CHECK(again.entry.bytes == 0);
}

TEST_CASE("store and reload: more pages than L2 has frames is no_space, and nothing is evicted") {
  Served bench(16, 2);
  for (std::uint32_t page = 1; page <= 8; ++page) {
    bench.store(bench.rank, {page});
  }
  const std::uint64_t evicted = bench.engine->core().counters.pages_evicted_l2;

  const Answer stored = bench.run(
      bench.rank, {.verb = Verb::store, .pages = {11, 12, 13, 14, 15}, .ack = Ack::resident});
  bench.drop_l2();
  bench.store(bench.rank, {9});
  const Answer reloaded =
      bench.run(bench.rank, {.verb = Verb::reload, .pages = {1, 2, 3, 4, 5}});

  CHECK(stored.entry.code == code(Code::no_space));
  CHECK(reloaded.entry.code == code(Code::no_space));
  CHECK(bench.engine->core().catalog->pages_linked() == 9);
  CHECK(bench.engine->core().counters.pages_evicted_l2 == evicted + 4);  // those of drop_l2
  CHECK(bench.load(bench.rank, 9) == 0U);
}

TEST_CASE("records: only pages that nothing but memory has make room for new ones") {
  Served bench;
  bench.store(bench.rank, {1, 2, 3});
  sim::FaultPlan plan;
  plan.write_error = 10'000;
  bench.disk.set_plan(plan);
  bench.run(bench.rank, {.verb = Verb::store, .pages = {4, 5}, .ack = Ack::resident});
  bench.run_until([&] { return bench.engine->core().counters.spill_failures == 2; });
  Catalog& catalog = *bench.engine->core().catalog;

  REQUIRE(bench.engine->pages().ensure_records(
      bench.engine->core().spaces->family(FamilyNo{}), catalog.pages_free(FamilyNo{}) + 1));

  CHECK(bench.part(1, 0).l2 == L2State::resident);
  CHECK(bench.part(3, 0).l2 == L2State::resident);
  CHECK(catalog.pages_linked() == 4);
}

TEST_CASE("stats: a frame that two leases hold counts once") {
  Served bench;
  bench.store(bench.rank, {1, 2});
  bench.run(bench.rank, {.verb = Verb::pin, .pages = {1}});
  bench.run(bench.rank, {.verb = Verb::pin, .pages = {1, 2}});

  CHECK(bench.engine->stats().frames_leased == 2);
}

TEST_CASE("slot order: a part older than many goes where the bounded look ends") {
  constexpr std::uint32_t kSlots = 400;
  Catalog catalog;
  catalog.add_family(kSlots, 1);
  SlotOrder order;
  SlabHeader header{};
  header.slot_count = kSlots;
  header.slots_per_step = 100;
  const Slab slab(FileId{1}, header);
  order.add_slab(SlabId{0}, slab);
  const auto add = [&](std::uint32_t number, std::uint64_t access) {
    const PageId page = catalog.create(FamilyNo{}, SpaceNo{0}, hc::test::page_hash(number));
    catalog.page(page).last_access = access;
    catalog.part(catalog.ref(page, 0)).slot = SlotId{number};
    catalog.part(catalog.ref(page, 0)).slab = SlabId{0};
    order.insert(catalog, catalog.ref(page, 0));
  };
  for (std::uint32_t number = 0; number < kSlots - 1; ++number) {
    add(number, number + 10);
  }

  add(kSlots - 1, 1);

  int newer = 0;
  for (std::uint32_t at = order.order(SlabId{0}).newest(); at != kSlots - 1;
       at = order.order(SlabId{0}).older_than(at)) {
    ++newer;
  }
  CHECK(newer == SlotOrder::kLooksMax);
  CHECK(order.step_newest(SlabId{0}, 0) == 109);
  CHECK(order.step_newest(SlabId{0}, 3) == 408);
}

TEST_CASE("store: the oldest page leaves the disk when its budget is full, whole and in order") {
  Served bench(4, 4);
  for (std::uint32_t page = 1; page <= 6; ++page) {
    bench.store(bench.rank, {page});
  }

  CHECK_FALSE(bench.is_there(bench.rank, 1));
  CHECK_FALSE(bench.is_there(bench.rank, 2));
  CHECK(bench.load_all(bench.rank, {3, 4, 5, 6}) == Code::ok);
  CHECK(bench.engine->core().counters.pages_evicted_l3 == 2);
}

TEST_CASE("store: within one operation the tail is older than the head") {
  Served bench(4, 4);
  bench.store(bench.rank, {1, 2, 3, 4});

  bench.store(bench.rank, {9});

  CHECK_FALSE(bench.is_there(bench.rank, 4));
  CHECK(bench.load_all(bench.rank, {1, 2, 3}) == Code::ok);
}

TEST_CASE("load: pages come from memory, then from disk, byte for byte") {
  Served bench;
  bench.store(bench.rank, {1, 2, 3});
  CHECK(bench.load(bench.rank, 2) == 0U);

  bench.drop_l2();

  CHECK(bench.load(bench.rank, 2) == 1U);
  CHECK(bench.load(bench.rank, 2) == 0U);
}

TEST_CASE("load: a gap is a miss for the whole, or ends the prefix when that is asked for") {
  Served bench;
  bench.store(bench.rank, {1, 2, 4});

  CHECK(bench.load_all(bench.rank, {1, 2, 3, 4}) == Code::not_found);
  const Answer prefix = bench.run(
      bench.rank, {.verb = Verb::load, .pages = {1, 2, 3, 4}, .flags = kFlagMaxPrefix});

  CHECK(prefix.entry.code == 0);
  CHECK(prefix.entry.page_count == 2);
}

TEST_CASE("load: more pages than L2 has frames go through it piece by piece") {
  Served bench(16, 2);
  for (std::uint32_t page = 1; page <= 8; ++page) {
    bench.store(bench.rank, {page});
  }

  CHECK(bench.load_all(bench.rank, {1, 2, 3, 4, 5, 6, 7, 8}) == Code::ok);
}

TEST_CASE("reload: every page is under a lease, whose frames stay until it is released") {
  Served bench(16, 3);
  bench.store(bench.rank, {1, 2});
  bench.drop_l2();

  const Answer answer = bench.run(bench.rank, {.verb = Verb::reload, .pages = {1, 2}});
  REQUIRE(answer.entry.code == 0);
  CHECK(answer.entry.lease != 0);
  CHECK(answer.entry.pages_from_l3 == 2);
  CHECK(answer.entry.bytes == 2 * EngineBench::kPayload);
  const FrameRef ref = answer.frames[0];
  FramePool& frames = bench.engine->core().spaces->family(FamilyNo{}).frames[0];
  for (std::uint32_t page = 11; page <= 14; ++page) {
    bench.store(bench.rank, {page});  // needs every other frame
  }
  CHECK(frames.generation(FrameId{ref.frame}) == ref.generation);

  const Answer released = bench.run(
      bench.rank, {.verb = Verb::release, .lease = answer.entry.lease});
  CHECK(released.entry.code == 0);
  CHECK(bench.run(bench.rank, {.verb = Verb::release, .lease = answer.entry.lease}).entry.code ==
        code(Code::not_found));
}

TEST_CASE("reload: all pages or none") {
  Served bench;
  bench.store(bench.rank, {1});

  const Answer answer = bench.run(bench.rank, {.verb = Verb::reload, .pages = {1, 2}});

  CHECK(answer.entry.code == code(Code::not_found));
  CHECK(answer.entry.lease == 0);
  CHECK(bench.engine->core().sessions.find(bench.rank.session)->leases == 0);
}

TEST_CASE("pin: only what is resident, without a read") {
  Served bench;
  bench.store(bench.rank, {1});
  const Answer pinned = bench.run(bench.rank, {.verb = Verb::pin, .pages = {1}});
  CHECK(pinned.entry.code == 0);
  bench.run(bench.rank, {.verb = Verb::release, .lease = pinned.entry.lease});
  bench.drop_l2();

  CHECK(bench.run(bench.rank, {.verb = Verb::pin, .pages = {1}}).entry.code ==
        code(Code::not_found));
  CHECK(bench.engine->core().counters.reads == 0);
}

TEST_CASE("flush: ends when every earlier store is durable") {
  Served bench;
  bench.options.commit_interval_ms = 60'000;
  bench.fill(bench.rank, 0, 1);
  bench.run(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::resident});

  const Answer flushed = bench.run(bench.rank, {.verb = Verb::flush});

  CHECK(flushed.entry.code == 0);
  CHECK(bench.part(1, 0).l3 == L3State::durable);
}

TEST_CASE("cancel: the target ends with cancelled, an ended one is not found") {
  Served bench;
  bench.store(bench.rank, {1});
  bench.drop_l2();
  bench.disk.set_read_delay(1000 * kNsPerMs);
  const std::uint16_t target = bench.submit(bench.rank, {.verb = Verb::load, .pages = {1}});
  OpRequest cancel;
  cancel.entry.verb = static_cast<std::uint8_t>(Verb::cancel);
  cancel.entry.op_slot = 40;
  cancel.entry.deadline_ms = 1000;
  cancel.entry.target_slot = target;
  cancel.entry.target_sequence = 99;
  bench.engine->submit(bench.rank.session, cancel);
  CHECK_FALSE(bench.ended(target));
  CHECK(bench.last(40).entry.code == code(Code::not_found));
  cancel.entry.target_sequence = 2;
  bench.engine->submit(bench.rank.session, cancel);

  CHECK(bench.ended(target));
  CHECK(bench.last(target).entry.code == code(Code::cancelled));
  CHECK(bench.last(40).entry.code == 0);
}

TEST_CASE("free_object: unreachable at once, its lease lives on, gone for good when answered") {
  Served bench;
  bench.store(bench.rank, {1});
  const Answer pinned = bench.run(bench.rank, {.verb = Verb::pin, .pages = {1}});

  const std::uint16_t slot = bench.submit(bench.rank, {.verb = Verb::free_object, .pages = {1}});
  CHECK(bench.page(1) == kNoPage);
  CHECK(bench.finish(slot).entry.code == 0);

  CHECK(bench.index.rows().empty());
  FramePool& frames = bench.engine->core().spaces->family(FamilyNo{}).frames[0];
  CHECK(frames.is_published(FrameId{pinned.frames[0].frame}));
  bench.run(bench.rank, {.verb = Verb::release, .lease = pinned.entry.lease});
  CHECK(frames.free_count() == frames.frame_count());
}

TEST_CASE("a space of new weights shares the slabs and never the pages") {
  Served bench;
  bench.store(bench.rank, {1});
  REQUIRE(bench.engine->switch_space(bench.rank.session, "w2"));

  CHECK_FALSE(bench.is_there(bench.rank, 1));
  bench.store(bench.rank, {1});
  REQUIRE(bench.engine->switch_space(bench.rank.session, "w1"));

  CHECK(bench.is_there(bench.rank, 1));
  CHECK(bench.engine->core().spaces->slabs().count() == 1);
}

TEST_CASE("sessions are bounded, and the refusal names the key") {
  Served bench;
  for (int i = 1; i < 8; ++i) {
    bench.attach(0);
  }

  const auto refused = bench.engine->attach({hc::test::bench_space(), 0, 0});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::busy);
  CHECK(refused.error().text.find("limits.sessions_max = 8") != std::string::npos);
}

TEST_CASE("two ranks store one page of a replicated kind once; the other waits and gets it") {
  Served bench;
  BenchRank other = bench.attach(0);
  bench.fill(bench.rank, 0, 1);
  bench.fill(other, 0, 1);

  const std::uint16_t first =
      bench.submit(bench.rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  const std::uint16_t second =
      bench.submit(other, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  CHECK(bench.finish(first).entry.pages_stored == 1);
  const Answer waited = bench.finish(second);

  CHECK(waited.entry.code == 0);
  CHECK(waited.entry.pages_stored == 0);
  CHECK(bench.engine->core().counters.spills == 1);
}

}  // namespace
