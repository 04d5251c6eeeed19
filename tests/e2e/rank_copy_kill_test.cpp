// SPDX-License-Identifier: Apache-2.0
// rank_copy_kill_test: a rank with device memory killed at any moment leaves nothing behind, and
// costs another rank no byte, whoever makes the copies.
#include <sys/eventfd.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kPagesUsed = 400;
constexpr std::uint32_t kPagesAtOnce = 4;
constexpr std::uint32_t kOpsAtOnce = 6;

// Stores and loads without end. What it loads is right, also of pages that the dead have stored.
int copy_until_killed(const RankCopyScene& scene, const RankOptions& options, std::uint32_t seed,
                      int progress) {
  scene.give_driver("version=12010,stream_delay_us=300,outlive_us=300000");
  Rank rank(options);
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::mt19937 random(seed);
  while (true) {
    std::vector<std::pair<std::uint64_t, Keys>> loads;
    std::vector<std::uint64_t> stores;
    for (std::uint32_t i = 0; i < kOpsAtOnce; ++i) {
      const Keys keys{1000 + random() % kPagesUsed, kPagesAtOnce, i * kPagesAtOnce};
      std::uint64_t op_id = 0;
      const std::uint8_t verb = random() % 2 == 0 ? HICACHE_VERB_LOAD : HICACHE_VERB_STORE;
      if (rank.submit(verb, keys, op_id, HICACHE_ACK_RESIDENT) != HICACHE_OK) {
        continue;
      }
      if (verb == HICACHE_VERB_LOAD) {
        loads.emplace_back(op_id, keys);
      } else {
        stores.push_back(op_id);
      }
    }
    ::eventfd_write(progress, 1);
    for (const auto& [op_id, keys] : loads) {
      const hicache_code code = rank.finish(op_id).code;
      HC_CHECK(code != HICACHE_OK || rank.wrong_bytes(keys) == 0);
    }
    for (const std::uint64_t op_id : stores) {
      rank.finish(op_id);
    }
    ::eventfd_write(progress, 1);
  }
}

// Another rank's stores and loads between the kills. A busy pool costs it time alone.
void expect_honest(Rank& honest, std::uint64_t round) {
  const Keys keys{100'000 + 8 * round, 8, 0};
  REQUIRE(eventually([&] { return honest.store(keys).code == HICACHE_OK; }));
  REQUIRE(honest.load({keys.first, 8, 16}).code == HICACHE_OK);
  CHECK(honest.wrong_bytes({keys.first, 8, 16}) == 0);
  if (honest.load({1000 + round % kPagesUsed, 1, 30}).code == HICACHE_OK) {
    CHECK(honest.wrong_bytes({1000 + round % kPagesUsed, 1, 30}) == 0);
  }
}

TEST_CASE("A rank with device memory killed at any moment leaves nothing behind") {
  const bool by_rank = GENERATE(true, false);
  INFO("copied by the rank: " << by_rank);
  RankCopyPlan plan;
  plan.l2_bytes = 3U << 20;
  plan.daemon_has_gpu = !by_rank;
  RankCopyScene scene(plan);
  RankOptions options = scene.on_device("victim");
  options.transfer = by_rank ? HICACHE_TRANSFER_RANK : HICACHE_TRANSFER_IPC;
  std::mt19937 random(20240611);
  Watch watch(scene.daemon());
  Rank honest(scene.on_host("honest"));
  REQUIRE(honest.open() == HICACHE_OK);
  Holdings baseline;
  const std::uint32_t kills = kill_count(8);

  for (std::uint32_t i = 0; i <= kills; ++i) {
    INFO("kill " << i);
    const UniqueFd progress(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const auto seed = static_cast<std::uint32_t>(random());
    Child victim([&] { return copy_until_killed(scene, options, seed, progress.get()); });
    const std::uint64_t wanted = 1 + random() % 8;
    for (std::uint64_t rounds = 0; rounds < wanted;) {
      REQUIRE(readable_within(progress.get(), kPatienceMs));
      eventfd_t more = 0;
      REQUIRE(::eventfd_read(progress.get(), &more) == 0);
      rounds += more;
    }
    // After some answers the kill falls anywhere.
    for (std::uint64_t looks = random() % 6; looks > 0; --looks) {
      watch.look();
    }

    victim.kill_now();

    expect_honest(honest, i);
    if (i == 0) {  // the first makes what stays
      REQUIRE(eventually([&] { return scene.daemon_sessions() == 1; }));
      std::uint32_t same = 0;
      REQUIRE(eventually([&] {
        const Holdings last = baseline;
        baseline = watch.look();
        same = last == baseline ? same + 1 : 0;
        return same == 25;
      }));
      continue;
    }
    Holdings last;
    const bool back = eventually([&] { return (last = watch.look()) == baseline; }, 20'000);
    INFO("baseline: " << text_of(baseline) << "\nnow:      " << text_of(last) << "\n"
                      << scene.daemon().log());
    REQUIRE(back);
    expect_honest(honest, 1000 + i);
  }
  CHECK(honest.close() == HICACHE_OK);
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
