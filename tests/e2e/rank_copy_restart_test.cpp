// SPDX-License-Identifier: Apache-2.0
// rank_copy_restart_test: a daemon that stops and starts while ranks copy device memory themselves.
#include <array>

#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kRestarts = 3;

// Is in the middle of copies whenever the daemon stops.
int reload_through_restarts(FakeLine& line, const RankCopyScene& scene) {
  line.be_child();
  scene.give_driver("version=12010,stream_delay_us@2=3000,stream_delay_us@3=3000");
  Rank rank(scene.on_device());
  HC_EXPECT(rank.open() == HICACHE_OK);
  for (std::uint32_t round = 0; round < kRestarts; ++round) {
    const Keys keys{100 + 16 * round, 16, 0};
    HC_EXPECT(rank.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    std::array<std::uint64_t, 2> ops{};
    HC_EXPECT(rank.submit(HICACHE_VERB_LOAD, {keys.first, 16, 16}, ops[0]) == HICACHE_OK);
    HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {900 + 16 * round, 16, 32}, ops[1],
                          HICACHE_ACK_RESIDENT) == HICACHE_OK);
    line.go();
    for (const std::uint64_t op : ops) {
      HC_EXPECT(rank.finish(op).code != Rank::kNeverEnded);
    }
    HC_EXPECT(line.wait());
    HC_EXPECT(rank.wait_serving());
    HC_EXPECT(rank.load({keys.first, 16, 16}).code == HICACHE_OK);
    HC_EXPECT(rank.wrong_bytes({keys.first, 16, 16}) == 0);
  }
  return 0;
}

TEST_CASE("A daemon that stops and starts while ranks copy gets them back, and no byte is wrong") {
  RankCopyScene scene;
  FakeLine line;
  Child child([&] { return reload_through_restarts(line, scene); });
  line.be_parent();
  for (std::uint32_t round = 0; round < kRestarts; ++round) {
    REQUIRE(line.wait());
    REQUIRE(scene.daemon().stop() == 0);
    scene.daemon().start();
    line.go();
  }
  CHECK(child.wait() == 0);
  INFO(scene.daemon().log());
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
