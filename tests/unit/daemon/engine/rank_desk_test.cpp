// SPDX-License-Identifier: Apache-2.0
// rank_desk_test: ranks that copy between their own memory and frames that they were told of.
#include "unit/daemon/engine/rank_bench.h"

namespace {

using namespace hc;
using hc::test::Answer;
using hc::test::BenchRank;
using hc::test::EngineBench;
using hc::test::RankBench;
using hc::test::code;

TEST_CASE("a store by rank tells its frames once, and nobody sees the page before the word") {
  RankBench bench;
  const std::uint16_t slot = bench.begin_store(0, {1, 2});
  bench.await_batch(slot);
  bench.copy(0, slot);
  bench.run_for(200);

  CHECK(bench.told(slot).size() == 1);
  CHECK(bench.frames_of(bench.told(slot)[0]).size() == 2);
  CHECK(bench.told(slot)[0].entry.terminal == 0);
  CHECK(bench.part(1, 0).l2 == L2State::filling);
  CHECK(bench.copier.submitted() == 0);  // no copy by the daemon itself

  bench.say(0, slot);
  const Answer answer = bench.finish(slot);
  CHECK(answer.entry.code == code(Code::ok));
  CHECK(answer.entry.pages_stored == 2);
  CHECK(answer.entry.bytes == 2 * EngineBench::kPayload);
  CHECK(bench.part(1, 0).l2 == L2State::resident);
}

TEST_CASE("what a rank has stored verifies when it comes back from the disk") {
  RankBench bench;
  bench.fill(bench.by_rank[0], 0, 1);
  const std::uint16_t slot =
      bench.begin(0, {.verb = Verb::store, .pages = {1}, .ack = Ack::durable});
  REQUIRE(bench.serve(0, slot).entry.code == code(Code::ok));
  bench.restart();

  BenchRank reader = bench.attach(0);

  CHECK(bench.load(reader, 1) == 1U);
}

TEST_CASE("a rank's store in a frame with old bytes leaves none of them behind its payload") {
  RankBench bench;
  FramePool& frames = bench.frames();
  const std::uint64_t whole = round_up(EngineBench::kPayload, kBlockBytes);
  for (std::uint32_t frame = 0; frame < frames.frame_count(); ++frame) {
    std::memset(frames.payload(FrameId{frame}), 0x77, whole);
  }
  const std::uint16_t slot = bench.begin_store(0, {1});
  REQUIRE(bench.serve(0, slot).entry.code == code(Code::ok));

  const std::uint8_t* const payload = frames.payload(bench.part(1, 0).frame);
  CHECK(std::count(payload + EngineBench::kPayload, payload + whole, 0) ==
        static_cast<std::ptrdiff_t>(whole - EngineBench::kPayload));
}

TEST_CASE("copies that failed end their store with an error, and publish nothing") {
  RankBench bench;
  const std::uint16_t slot = bench.begin_store(0, {1, 2});
  bench.await_batch(slot);

  bench.say(0, slot, Code::io_error);

  CHECK(bench.finish(slot).entry.code == code(Code::io_error));
  CHECK_FALSE(bench.is_known(1));
  CHECK_FALSE(bench.is_known(2));
  CHECK(bench.frames_taken() == 0);
}

TEST_CASE("copies that failed end their load with an error, and the page stays") {
  RankBench bench;
  REQUIRE(bench.serve(0, bench.begin_store(0, {1})).entry.code == code(Code::ok));
  const std::uint16_t slot = bench.begin_load(0, {1});
  bench.await_batch(slot);

  bench.say(0, slot, Code::io_error);

  CHECK(bench.finish(slot).entry.code == code(Code::io_error));
  CHECK(bench.serve(0, bench.begin_load(0, {1})).entry.code == code(Code::ok));
  CHECK(bench.row_holds(bench.by_rank[0], 0, 1));
}

TEST_CASE("a load by rank brings what lies in memory, and frames that it reads are not evicted") {
  RankBench bench(1, 16, 1);  // a frame for each of the two shards
  REQUIRE(bench.serve(0, bench.begin_store(0, {1})).entry.code == code(Code::ok));
  const std::uint16_t load = bench.begin_load(0, {1});
  bench.await_batch(load);
  bench.by_rank.push_back(bench.join());
  for (const std::uint32_t other : {2U, 3U, 4U}) {
    REQUIRE(bench.serve(1, bench.begin_store(1, {other})).entry.code == code(Code::ok));
    bench.run_for(500);  // its blob is on disk: its frame may go
  }

  CHECK(bench.part(1, 0).l2 == L2State::resident);
  bench.copy(0, load);
  bench.say(0, load);
  CHECK(bench.finish(load).entry.code == code(Code::ok));
  CHECK(bench.row_holds(bench.by_rank[0], 0, 1));
}

TEST_CASE("a load of more than the memory holds comes batch by batch, one at a time") {
  RankBench bench(1, 16, 2);
  const std::vector<std::uint32_t> pages{1, 2, 3, 4, 5, 6, 7, 8};
  for (const std::uint32_t number : pages) {
    bench.fill(bench.by_rank[0], 0, number);
    const std::uint16_t slot =
        bench.begin(0, {.verb = Verb::store, .pages = {number}, .ack = Ack::durable});
    REQUIRE(bench.serve(0, slot).entry.code == code(Code::ok));
  }
  const std::uint16_t load = bench.begin_load(0, pages);

  const Answer answer = bench.serve(0, load);

  CHECK(answer.entry.code == code(Code::ok));
  CHECK(answer.entry.page_count == pages.size());
  CHECK(bench.told(load).size() > 1);
  std::size_t copied = 0;
  for (const Answer& batch : bench.told(load)) {
    copied += bench.frames_of(batch).size();
    CHECK(bench.frames_of(batch).size() <= bench.frames().frame_count());
  }
  CHECK(copied == pages.size());
  for (std::uint32_t i = 0; i < pages.size(); ++i) {
    CHECK(bench.row_holds(bench.by_rank[0], i, pages[i]));
  }
}

TEST_CASE("a rank is told of no page that is there already") {
  RankBench bench;
  REQUIRE(bench.serve(0, bench.begin_store(0, {1})).entry.code == code(Code::ok));

  const std::uint16_t again = bench.begin_store(0, {1});
  CHECK(bench.finish(again).entry.code == code(Code::ok));
  CHECK(bench.told(again).empty());

  const std::uint16_t mixed = bench.begin_store(0, {1, 2});
  CHECK(bench.serve(0, mixed).entry.pages_stored == 1);
  REQUIRE(bench.told(mixed).size() == 1);
  CHECK(bench.told(mixed)[0].frames[0].frame == kNone32);
  CHECK(bench.told(mixed)[0].frames[kKindsMax].frame != kNone32);
}

TEST_CASE("a store whose deadline passes while it is with its rank is late until the word") {
  RankBench bench;
  const std::uint16_t slot = bench.begin_store(0, {1}, 20);
  bench.await_batch(slot);
  bench.run_until([&] { return bench.told_late(slot); });
  bench.run_for(5000);
  CHECK_FALSE(bench.ended(slot));
  CHECK(bench.frames_taken() == 1);

  bench.copy(0, slot);
  bench.say(0, slot);

  CHECK(bench.finish(slot).entry.code == code(Code::timed_out));
  CHECK(bench.all(slot).size() == 3);  // prepared, late, done
  CHECK_FALSE(bench.is_known(1));
  CHECK(bench.frames_taken() == 0);
}

TEST_CASE("a cancelled load keeps its memory and its frames until the word") {
  RankBench bench;
  REQUIRE(bench.serve(0, bench.begin_store(0, {1})).entry.code == code(Code::ok));
  const std::uint16_t slot = bench.begin_load(0, {1});
  bench.await_batch(slot);
  bench.cancel(0, slot);
  bench.run_until([&] { return bench.told_late(slot); });
  bench.run_for(1000);
  bench.drop_l2();
  CHECK_FALSE(bench.ended(slot));
  CHECK(bench.part(1, 0).l2 == L2State::resident);

  bench.say(0, slot);

  CHECK(bench.finish(slot).entry.code == code(Code::cancelled));
}

TEST_CASE("a session that is given up gives every frame back") {
  RankBench bench(2);
  REQUIRE(bench.serve(1, bench.begin_store(1, {1, 2})).entry.code == code(Code::ok));
  const std::uint16_t store = bench.begin_store(0, {5, 6});
  const std::uint16_t load = bench.begin_load(0, {1, 2});
  bench.await_batch(store);
  bench.await_batch(load);
  const SessionId gone = bench.by_rank[0].session;
  bench.engine->end_service(gone);
  bench.run_for(5000);
  CHECK_FALSE(bench.engine->is_quiet(gone));
  CHECK(bench.engine->is_with_rank(gone));

  bench.engine->give_up_rank(gone);
  bench.run_until([&] { return bench.engine->is_quiet(gone); });

  CHECK(bench.last(store).entry.code == code(Code::cancelled));
  CHECK(bench.last(load).entry.code == code(Code::cancelled));
  CHECK_FALSE(bench.engine->is_with_rank(gone));
  CHECK_FALSE(bench.is_known(5));
  CHECK(bench.frames_taken() == 2);
  CHECK(bench.engine->core().counters.rank_batches_given_up == 2);
  bench.engine->close_session(gone);
}

TEST_CASE("a store that waits for one that is with its rank goes on by itself when that is late") {
  RankBench bench(2);
  const std::uint16_t late = bench.begin_store(0, {1}, 20);
  bench.await_batch(late);
  const std::uint16_t heir = bench.begin_store(1, {1});
  CHECK(bench.told(heir).empty());
  bench.run_until([&] { return bench.told_late(late); });

  CHECK(bench.serve(1, heir).entry.code == code(Code::ok));
  CHECK(bench.frames_taken() == 2);  // the late batch has a frame of its own until its word
  std::memset(bench.frames().payload(FrameId{bench.told(late)[0].frames[0].frame}), 0x66,
              EngineBench::kPayload);
  bench.say(0, late);

  CHECK(bench.finish(late).entry.code == code(Code::timed_out));
  CHECK(bench.frames_taken() == 1);
  BenchRank reader = bench.attach(0);
  CHECK(bench.load(reader, 1) == 0U);
}

TEST_CASE("of two operations with one rank each has its own word") {
  RankBench bench;
  const std::uint16_t first = bench.begin_store(0, {1});
  const std::uint16_t second = bench.begin(0, {.verb = Verb::store,
                                               .pages = {2},
                                               .ack = Ack::resident});
  bench.await_batch(first);
  bench.await_batch(second);
  CHECK(bench.told(first)[0].frames[0].frame != bench.told(second)[0].frames[0].frame);

  bench.say(0, second);

  CHECK(bench.finish(second).entry.code == code(Code::ok));
  bench.run_for(100);
  CHECK_FALSE(bench.ended(first));
  CHECK_FALSE(bench.is_awaited(0, bench.word(second)));
  bench.say(0, first);
  CHECK(bench.finish(first).entry.code == code(Code::ok));
}

TEST_CASE("a word counts for the operation that it names, while a batch of it is with the rank") {
  RankBench bench(2);
  const std::uint16_t slot = bench.begin_store(0, {1});
  bench.await_batch(slot);
  RequestEntry stale = bench.word(slot);
  --stale.op_sequence;
  RequestEntry elsewhere = bench.word(slot);
  ++elsewhere.op_slot;

  CHECK_FALSE(bench.is_awaited(0, stale));
  CHECK_FALSE(bench.is_awaited(0, elsewhere));
  CHECK_FALSE(bench.is_awaited(1, bench.word(slot)));
  CHECK(bench.is_awaited(0, bench.word(slot)));
  bench.say(0, slot);
  CHECK_FALSE(bench.is_awaited(0, bench.word(slot)));
}

TEST_CASE("frames that are with a rank whose session has ended are nobody else's") {
  RankBench bench(2, 16, 1);  // two frames
  const std::uint16_t held = bench.begin_store(0, {1, 2});
  bench.await_batch(held);
  bench.engine->end_service(bench.by_rank[0].session);
  bench.run_for(5000);
  const std::uint16_t other = bench.begin_store(1, {3});
  CHECK(bench.finish(other).entry.code == code(Code::busy));
  CHECK(bench.told(other).empty());

  bench.engine->give_up_rank(bench.by_rank[0].session);

  CHECK(bench.last(held).entry.code == code(Code::cancelled));
  CHECK(bench.serve(1, bench.begin_store(1, {3, 4})).entry.code == code(Code::ok));
}

TEST_CASE("copies of a store that ended early are never seen, whatever the rank says of them") {
  RankBench bench;
  const std::uint16_t slot = bench.begin_store(0, {1, 2});
  bench.await_batch(slot);
  bench.cancel(0, slot);
  bench.copy(0, slot);
  bench.say(0, slot);
  CHECK(bench.finish(slot).entry.code == code(Code::cancelled));

  bench.restart();

  BenchRank reader = bench.attach(0);
  CHECK_FALSE(bench.is_there(reader, 1));
  CHECK_FALSE(bench.is_there(reader, 2));
}

TEST_CASE("a page that is forgotten while it is with its rank is gone with the word") {
  RankBench bench;
  const std::uint16_t slot = bench.begin_store(0, {1});
  bench.await_batch(slot);
  const std::uint16_t forget = bench.begin(0, {.verb = Verb::free_object, .pages = {1}});
  bench.run_for(100);
  CHECK(bench.frames_taken() == 1);

  bench.copy(0, slot);
  bench.say(0, slot);

  CHECK(bench.finish(slot).entry.code != code(Code::ok));
  CHECK(bench.finish(forget).entry.code == code(Code::ok));
  CHECK_FALSE(bench.is_known(1));
  CHECK(bench.frames_taken() == 0);
}

TEST_CASE("the session may end inside of the answer that tells its rank of frames") {
  RankBench bench;
  const SessionId session = bench.by_rank[0].session;
  bench.on_answer = [&](const CompletionEntry& entry) {
    if (entry.ack == static_cast<std::uint8_t>(Ack::prepared)) {
      bench.engine->end_service(session);
    }
  };
  const std::uint16_t first = bench.begin_store(0, {1});
  const std::uint16_t second = bench.begin_store(0, {2});
  bench.run_for(100);
  bench.engine->give_up_rank(session);
  bench.run_until([&] { return bench.engine->is_quiet(session); });

  CHECK(bench.last(first).entry.code == code(Code::cancelled));
  CHECK(bench.last(second).entry.code == code(Code::cancelled));
  CHECK(bench.frames_taken() == 0);
}

}  // namespace
