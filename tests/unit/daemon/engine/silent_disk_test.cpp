// SPDX-License-Identifier: Apache-2.0
// silent_disk_test: a device that does not answer, or says no to everything: whoever waits is told,
// memory and slots stay where the device may still reach them, and all is well when it comes back.
#include <cerrno>

#include "unit/daemon/engine/engine_bench.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kTimeoutMs = 300;

std::int32_t code(Code code) { return static_cast<std::int32_t>(code); }

struct Bench : EngineBench {
  Bench() {
    options.io_timeout_ms = kTimeoutMs;
    start(ColdStartMode::clear);
    rank = attach(0);
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

}  // namespace
}  // namespace hc::test
