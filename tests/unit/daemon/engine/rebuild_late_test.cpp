// SPDX-License-Identifier: Apache-2.0
// rebuild_late_test: a rebuild that finds more pages than there are records (rebuild_late.cpp).
#include <algorithm>
#include <vector>

#include "rebuild_bench.h"

namespace hc::test {
namespace {

constexpr std::uint16_t kShards = 4;
constexpr std::uint32_t kEach = 16;  // pages of each shard, in its own slab alone, which they fill

struct ManyShards : EngineBench {
  explicit ManyShards(std::uint32_t each = kEach) {
    space.world.tensor = kShards;
    options.spaces.l2_bytes = 4 * frame_bytes_per_page(space, kShards);
    options.spaces.l3_bytes = slab_bytes(slots_for_pages(space, kShards, each, 4));
    start(ColdStartMode::clear);
    attach_all();
    for (std::uint16_t shard = 0; shard < kShards; ++shard) {
      for (std::uint32_t at = 0; at < each; ++at) {
        store(ranks[shard], {number(shard, at)});
      }
    }
  }
  static std::uint32_t number(std::uint32_t shard, std::uint32_t at) {
    return 1000 * shard + at + 1;
  }
  void attach_all() {
    ranks.clear();
    for (std::uint16_t shard = 0; shard < kShards; ++shard) {
      ranks.push_back(attach_space(space, shard));
    }
  }
  SpaceDescriptor space = bench_space();
  std::vector<BenchRank> ranks;
};

TEST_CASE("rebuild: of more pages than there are records those that were written last stay") {
  ManyShards bench;
  const std::uint32_t records = bench.engine->core().catalog->pages_max();
  REQUIRE(records < kShards * kEach);

  lose_index(bench);
  run_until_rebuilt(bench);

  const Counters& counters = bench.engine->core().counters;
  CHECK(counters.slots_left_out + counters.pages_evicted_l3 > 0);
  bench.attach_all();
  std::uint32_t there = 0;
  for (std::uint32_t at = 0; at < kShards * kEach; ++at) {
    const bool is_there =
        bench.is_there(bench.ranks[at / kEach], ManyShards::number(at / kEach, at % kEach));
    INFO("the " << at << "th that was written");
    CHECK((is_there || there == 0));  // none is missing that was written later
    there += is_there ? 1U : 0U;
  }
  CHECK(there >= records - 4);  // what only memory has takes the others
}

TEST_CASE("rebuild: pages that come late do not come all in one turn") {
  ManyShards bench(128);
  lose_index(bench);
  const Counters& counters = bench.engine->core().counters;
  std::uint64_t most = 0;
  while (bench.engine->rebuilding()) {
    const std::uint64_t before = counters.slots_adopted + counters.slots_left_out;
    bench.step();
    most = std::max(most, counters.slots_adopted + counters.slots_left_out - before);
  }
  CHECK(counters.slots_left_out + counters.pages_evicted_l3 > 64);
  CHECK(most <= 64);
}

}  // namespace
}  // namespace hc::test
