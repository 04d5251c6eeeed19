// SPDX-License-Identifier: Apache-2.0
// gpu_scene: ranks that several tests need.
#include "e2e/gpu_scene.h"

#include <array>
#include <utility>

#include "e2e/process.h"
#include "support/catch.h"

namespace hc::test {

// The first session makes what stays: arenas, slabs, the driver, contexts, streams.
void warm_up(GpuScene& scene) {
  REQUIRE(holds_in_child([&] {
    use_stand_in("");
    Rank rank(scene.rank_options("warm"));
    HC_EXPECT(rank.open() == HICACHE_OK);
    HC_EXPECT(rank.store({1, 8, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    HC_EXPECT(rank.load({1, 8, 0}).code == HICACHE_OK && rank.wrong_bytes({1, 8, 0}) == 0);
    return 0;
  }));
  REQUIRE(eventually([&] {
    return scene.is_clean() && scene.daemon().ask("status").at("sessions").empty();
  }));
}

// Stores, says so, and waits for the end.
int store_and_stay(FakeLine& line, RankOptions options, const std::string& plan) {
  line.be_child();
  use_stand_in(plan);
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::array<std::uint64_t, 8> ops{};
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {10 + 4 * i, 4, 4 * i}, ops[i],
                          HICACHE_ACK_RESIDENT) == HICACHE_OK);
  }
  line.go();
  return line.wait() ? 0 : 1;
}

}  // namespace hc::test
