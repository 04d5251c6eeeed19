// SPDX-License-Identifier: Apache-2.0
// failed_volume_test: one of several volumes fails while the daemon serves: the others go on.
#include <cerrno>

#include "rebuild_bench.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kStored = 16;

// Two volumes that share the pages 1..kStored; the second one fails on request.
struct TwoVolumes : EngineBench {
  explicit TwoVolumes(std::uint32_t pages = 24) : EngineBench(pages, 32) {
    const std::uint64_t bytes = options.spaces.l3_bytes;
    options.spaces.volume_bytes = {bytes, bytes};
    options.io_timeout_ms = 300;
    start(ColdStartMode::clear);
    rank = attach(0);
    for (std::uint32_t page = 1; page <= kStored; ++page) {
      store(rank, {page});
    }
    REQUIRE(slab_of(0, 1).live_count() >= 4);
  }
  const IoQueue& io() { return engine->core().io; }
  const Counters& counters() { return engine->core().counters; }
  // What its end is does not matter.
  void try_store(std::uint32_t page) {
    fill(rank, 0, page);
    (void)run(rank, {.verb = Verb::store, .pages = {page}, .ack = Ack::durable});
  }
  std::uint32_t hits() {
    std::uint32_t hits = 0;
    for (std::uint32_t page = 1; page <= kStored; ++page) {
      hits += is_there(rank, page) ? 1U : 0U;
    }
    return hits;
  }
  BenchRank rank;
};

TEST_CASE("volumes: one that fails becomes misses, the others go on, and it comes back") {
  TwoVolumes bench;
  bench.drop_l2();
  bench.disk.fail_volume(1, ENODEV, ENODEV);
  for (std::uint32_t page = 21; page <= 24; ++page) {
    bench.try_store(page);
  }
  CHECK(bench.io().refuses(IoKind::write_blob, 1));
  bench.store(bench.rank, {60});
  bench.drop_l2();
  CHECK(bench.is_there(bench.rank, 60));
  const std::uint32_t hits = bench.hits();
  CHECK(hits < kStored);
  CHECK(hits > 0);
  CHECK_FALSE(bench.engine->index_failed());

  bench.disk.fail_volume(1, 0, 0);
  bench.run_until([&] { return bench.io().health(1).well(); });
  const std::uint32_t before = bench.slab_of(0, 1).live_count();
  for (std::uint32_t page = 71; page <= 90; ++page) {
    bench.store(bench.rank, {page});
  }
  CHECK(bench.slab_of(0, 1).live_count() > before);
  CHECK(bench.load(bench.rank, 90).has_value());
}

TEST_CASE("volumes: a page whose volume has failed can be stored again, on another one") {
  TwoVolumes bench;
  bench.drop_l2();
  bench.disk.fail_volume(1, EIO, EIO);
  bench.run_until([&] {
    (void)bench.hits();
    return bench.io().refuses(IoKind::read_blob, 1);
  });
  std::uint32_t missing = 0;
  for (std::uint32_t page = 1; page <= kStored; ++page) {
    const std::uint64_t unreachable = bench.counters().parts_unreachable;
    (void)bench.is_there(bench.rank, page);
    missing = bench.counters().parts_unreachable != unreachable ? page : missing;
  }
  REQUIRE(missing != 0);
  bench.store(bench.rank, {missing});
  bench.drop_l2();
  CHECK(bench.is_there(bench.rank, missing));
}

TEST_CASE("volumes: one that refuses writes gets no new pages, and serves those that it has") {
  TwoVolumes bench;
  bench.disk.fail_volume(1, 0, EROFS);
  bench.try_store(21);
  bench.try_store(22);
  bench.try_store(23);
  REQUIRE(bench.io().refuses(IoKind::write_blob, 1));
  const std::uint32_t there = bench.slab_of(0, 1).live_count();
  for (std::uint32_t page = 31; page <= 36; ++page) {
    bench.store(bench.rank, {page});
  }
  CHECK(bench.slab_of(0, 1).live_count() <= there);
  bench.drop_l2();
  for (std::uint32_t page = 31; page <= 36; ++page) {
    CHECK(bench.is_there(bench.rank, page));
  }
  CHECK(bench.counters().parts_unreachable == 0);
}

TEST_CASE("volumes: what one that fails had not flushed holds up no commit of the others") {
  TwoVolumes bench;
  std::vector<std::uint16_t> slots;
  for (std::uint32_t page = 21; page <= 24; ++page) {
    bench.fill(bench.rank, 0, page);
    slots.push_back(
        bench.submit(bench.rank, {.verb = Verb::store, .pages = {page}, .ack = Ack::durable}));
  }
  const std::uint64_t failures = bench.counters().commit_failures;
  bench.run_until([&] {
    bool written_there = false;
    for (std::uint32_t page = 21; page <= 24 && bench.page(page) != kNoPage; ++page) {
      const Part& part = bench.part(page, 0);
      written_there = written_there ||
                      (part.l3 == L3State::written &&
                       bench.engine->core().spaces->slabs().slab(part.slab).volume() == 1);
    }
    return written_there;
  });
  bench.disk.fail_volume(1, EROFS, EROFS);
  for (const std::uint16_t slot : slots) {
    (void)bench.finish(slot);
  }
  for (std::uint32_t page = 31; page <= 36; ++page) {
    bench.try_store(page);
  }
  CHECK(bench.counters().commit_failures > failures);
  CHECK_FALSE(bench.engine->index_failed());
  bench.store(bench.rank, {60});
  bench.store(bench.rank, {61});
  bench.drop_l2();
  CHECK(bench.is_there(bench.rank, 61));
}

TEST_CASE("volumes: one that does not answer keeps its parts, and the others serve meanwhile") {
  TwoVolumes bench;
  bench.drop_l2();
  bench.disk.hold_volume(1, true);
  const std::uint32_t hits = bench.hits();
  CHECK(hits > 0);
  CHECK(hits < kStored);
  bench.disk.hold_volume(1, false);
  bench.run_for(2000);
  CHECK(bench.hits() > hits);
}

// daemon/engine/rebuild_reads.cpp
TEST_CASE("volumes: a rebuild of one that fails or is silent holds up neither others nor stores") {
  const bool is_silent = GENERATE(true, false);
  INFO("silent " << is_silent);
  constexpr std::uint32_t kMany = 100;  // more slots in each slab than are read at once
  TwoVolumes bench(kMany);
  BenchRank other = bench.attach(1);  // its slabs are read last
  for (std::uint32_t page = 1001; page <= 1001 + 2 * kMany; ++page) {
    bench.store(bench.rank, {page});  // all are full
    bench.store(other, {page});
  }
  const auto break_it = [&](bool broken) {
    is_silent ? bench.disk.hold_volume(1, broken)
              : bench.disk.fail_volume(1, broken ? EIO : 0, broken ? EIO : 0);
  };
  bench.kill();
  bench.index.lose();
  bench.start(ColdStartMode::load);
  REQUIRE(bench.engine->rebuilding());
  break_it(true);
  bench.rank = bench.attach(1);

  bench.run_until([&] {
    return bench.slab_of(0, 0).unscanned_count() + bench.slab_of(1, 0).unscanned_count() == 0;
  });

  CHECK(bench.engine->rebuilding());
  CHECK(bench.slab_of(0, 1).unscanned_count() > 0);
  for (std::uint32_t page = 201; page <= 240; ++page) {
    bench.try_store(page);
  }
  CHECK(bench.is_there(bench.rank, 240));
  break_it(false);
  run_until_rebuilt(bench);
  CHECK(bench.slab_of(0, 1).unscanned_count() == 0);
}

}  // namespace
}  // namespace hc::test
