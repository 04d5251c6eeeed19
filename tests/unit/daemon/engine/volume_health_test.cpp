// SPDX-License-Identifier: Apache-2.0
// volume_health_test: when a volume counts as dead, when it is tried, and when it is back; what the
// engine makes of it.
#include "daemon/engine/volume_health.h"

#include "engine_bench.h"

namespace {

using namespace hc;
using hc::test::BenchRank;
using hc::test::EngineBench;

TEST_CASE("volume health: failures in a row make a volume dead, one success makes it live") {
  VolumeHealth health;
  const Instant now{1'000'000'000};
  for (std::uint32_t i = 1; i < VolumeHealth::kFailuresMax; ++i) {
    CHECK_FALSE(health.note(1, true, now));
  }
  CHECK_FALSE(health.note(1, false, now));  // the row begins anew
  for (std::uint32_t i = 1; i < VolumeHealth::kFailuresMax; ++i) {
    CHECK_FALSE(health.note(1, true, now));
  }
  CHECK_FALSE(health.is_dead(1));

  CHECK(health.note(1, true, now));
  CHECK(health.is_dead(1));
  CHECK_FALSE(health.is_dead(0));
  CHECK_FALSE(health.note(1, true, now));  // told once

  CHECK_FALSE(health.take_probe(1, now));
  const Instant later = now + VolumeHealth::kProbeMs * kNsPerMs;
  CHECK(health.take_probe(1, later));
  CHECK_FALSE(health.take_probe(1, later));
  CHECK_FALSE(health.take_probe(0, later));
  CHECK(health.note(1, false, later));
  CHECK_FALSE(health.is_dead(1));
}

TEST_CASE("volumes: one that dies becomes misses, the others go on, and it comes back") {
  EngineBench bench(24, 32);
  const std::uint64_t bytes = bench.options.spaces.l3_bytes;
  bench.options.spaces.volume_bytes = {bytes, bytes};
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  for (std::uint32_t page = 1; page <= 16; ++page) {
    bench.store(rank, {page});
  }
  const std::uint32_t there = bench.slab_of(0, 1).live_count();
  REQUIRE(there >= 4);
  Core& core = bench.engine->core();

  bench.disk.set_dead_volume(1);
  for (std::uint32_t page = 21; page <= 50; ++page) {
    bench.fill(rank, 0, page);
    (void)bench.run(rank, {.verb = Verb::store, .pages = {page}, .ack = Ack::durable});
  }

  CHECK(core.counters.volumes_died == 1);
  CHECK(core.health.is_dead(1));
  bench.store(rank, {60});
  bench.drop_l2();
  CHECK(bench.is_there(rank, 60));
  std::uint32_t hits = 0;
  for (std::uint32_t page = 1; page <= 16; ++page) {
    hits += bench.is_there(rank, page) ? 1U : 0U;
  }
  CHECK(hits < 16);
  CHECK_FALSE(bench.engine->index_failed());

  bench.disk.set_dead_volume(hc::sim::kNoVolume);
  bench.run_for(VolumeHealth::kProbeMs + 1000);
  bench.store(rank, {70});
  bench.run_until([&] { return !core.health.is_dead(1); });
  CHECK(bench.load(rank, 70).has_value());
}

}  // namespace
