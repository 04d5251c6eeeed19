// SPDX-License-Identifier: Apache-2.0
// rank_copy_daemon_death_test: a daemon that dies on the way of copies to and from device memory:
// ranks go on, their memory is theirs once they are told so, and they come back to the next daemon.
#include <array>
#include <string>
#include <vector>

#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

// What it submitted ends, one way or another; `cut` counts what the death has ended.
int end_all(Rank& rank, const std::vector<std::uint64_t>& ops, std::uint32_t& cut) {
  for (const std::uint64_t op : ops) {
    const hicache_code code = rank.finish(op).code;
    HC_EXPECT(code == HICACHE_OK || code == HICACHE_NOT_FOUND || code == HICACHE_DISCONNECTED);
    cut += code == HICACHE_DISCONNECTED ? 1 : 0;
  }
  return 0;
}

// Stores and loads until the daemon is dead; then what it was told is free stays as it is.
int outlive_daemon(FakeLine& line, const RankCopyScene& scene, RankOptions options) {
  line.be_child();
  scene.give_driver("version=12010,stream_delay_us@2=3000,stream_delay_us@3=3000");
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::uint32_t cut = 0;
  for (std::uint32_t round = 0; cut == 0; ++round) {
    HC_EXPECT(round < 200);
    std::vector<std::uint64_t> ops;
    const std::array<std::uint8_t, 3> verbs{HICACHE_VERB_STORE, HICACHE_VERB_LOAD,
                                            HICACHE_VERB_STORE};
    for (std::uint32_t i = 0; i < verbs.size(); ++i) {
      std::uint64_t op = 0;
      const hicache_code code = rank.submit(verbs[i], {100 + 4 * round + 4 * (i / 2), 4, 8 * i}, op,
                                            HICACHE_ACK_RESIDENT);
      HC_EXPECT(code == HICACHE_OK || code == HICACHE_DISCONNECTED);
      if (code == HICACHE_OK) {
        ops.push_back(op);
      } else {
        ++cut;
      }
    }
    HC_EXPECT(end_all(rank, ops, cut) == 0);
  }
  const std::uint64_t bytes = rank.wrong_bytes({100, 4, 8});
  const hicache_code alone = rank.load({100, 1, 0}).code;
  HC_EXPECT(alone == HICACHE_DISCONNECTED || alone == HICACHE_BAD_ARGUMENT);
  line.go();
  HC_EXPECT(line.wait());  // another daemon is there
  HC_EXPECT(rank.wrong_bytes({100, 4, 8}) == bytes);
  HC_EXPECT(rank.wait_serving());
  for (std::uint32_t round = 0; round < 4; ++round) {
    const Keys keys{700 + 4 * round, 4, 0};
    HC_EXPECT(rank.store(keys).code == HICACHE_OK);
    HC_EXPECT(rank.load({keys.first, 4, 32}).code == HICACHE_OK);
    HC_EXPECT(rank.wrong_bytes({keys.first, 4, 32}) == 0);
  }
  // What the dead one had, in part or whole, is right or not there.
  for (std::uint64_t page = 100; page < 200; ++page) {
    const hicache_code code = rank.load({page, 1, 50}).code;
    HC_EXPECT(code == HICACHE_NOT_FOUND || code == HICACHE_OK);
    HC_EXPECT(code != HICACHE_OK || rank.wrong_bytes({page, 1, 50}) == 0);
  }
  HC_EXPECT(rank.close() == HICACHE_OK);
  return 0;
}

struct Death {
  const char* failpoint;
  bool by_rank;
};

TEST_CASE("A daemon killed anywhere on the way of a copy costs its ranks the cache, and no byte") {
  const auto death = GENERATE(Death{"rank_prepared", true}, Death{"rank_prepared:7", true},
                              Death{"rank_committed", true}, Death{"rank_committed:6", true},
                              Death{"gpu_batch_issued", false},
                              Death{"gpu_batch_issued:8", false});
  INFO(death.failpoint);
  RankCopyPlan plan;
  plan.failpoint = death.failpoint;
  plan.daemon_has_gpu = !death.by_rank;
  plan.daemon_driver = "version=12010,stream_delay_us=5000,outlive_us=700000";
  RankCopyScene scene(plan);
  RankOptions options = scene.on_device();
  options.transfer = death.by_rank ? HICACHE_TRANSFER_RANK : HICACHE_TRANSFER_IPC;
  const pid_t pid = scene.daemon().pid();
  FakeLine line;
  Child rank([&] { return outlive_daemon(line, scene, options); });
  line.be_parent();
  REQUIRE(eventually([&] { return scene.daemon().was_killed(); }));

  REQUIRE(line.wait());
  const long outlived = scene.count(pid, "outlived");
  scene.start_sound();
  CHECK(scene.count(pid, "outlived") == outlived);
  line.go();
  CHECK(rank.wait() == 0);
  INFO(scene.daemon().log());
  CHECK(scene.daemon().stop() == 0);
}

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
