// SPDX-License-Identifier: Apache-2.0
// rank_copy_kill_test: a rank with device memory killed at any moment leaves nothing behind, and
// costs another rank no byte, whoever makes the copies.
#include <sys/eventfd.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "e2e/rank_copy_reuse.h"
#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kPagesUsed = 400;
constexpr std::uint32_t kPagesAtOnce = 4;
constexpr std::uint32_t kOpsAtOnce = 6;
constexpr std::uint32_t kKills = 8;

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

Keys honest_keys(std::uint64_t round) { return {100'000 + 8 * round, 8, 0}; }

void expect_right(Rank& honest, const Keys& keys) {
  REQUIRE(honest.load({keys.first, keys.count, 16}).code == HICACHE_OK);
  CHECK(honest.wrong_bytes({keys.first, keys.count, 16}) == 0);
}

// Another rank's stores and loads between the kills. A busy pool costs it time alone.
void expect_honest(Rank& honest, std::uint64_t round) {
  REQUIRE(eventually([&] { return honest.store(honest_keys(round)).code == HICACHE_OK; }));
  expect_right(honest, honest_keys(round));
  if (honest.load({1000 + round % kPagesUsed, 1, 30}).code == HICACHE_OK) {
    CHECK(honest.wrong_bytes({1000 + round % kPagesUsed, 1, 30}) == 0);
  }
}

// Nothing of a client is open in the daemon's driver.
bool is_clean(const RankCopyScene& scene, bool by_rank) {
  const pid_t pid = scene.daemon_pid();
  return by_rank || (scene.count(pid, "mappings") == 0 && scene.count(pid, "opened_events") == 0);
}

// Some rounds, and then anything, because the victim goes on while the daemon answers.
void await_moment(int progress, std::mt19937& random, Watch& watch) {
  const std::uint64_t wanted = 1 + random() % 8;
  for (std::uint64_t rounds = 0; rounds < wanted;) {
    REQUIRE(readable_within(progress, kPatienceMs));
    eventfd_t more = 0;
    REQUIRE(::eventfd_read(progress, &more) == 0);
    rounds += more;
  }
  for (std::uint64_t looks = random() % 6; looks > 0; --looks) {
    watch.look();
  }
}

// What there is while the honest rank is alone.
Holdings settled(const RankCopyScene& scene, Watch& watch) {
  REQUIRE(eventually([&] { return scene.daemon_sessions() == 1; }));
  return watch.settled();
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
  std::uint64_t longest_ms = 0;
  const std::uint32_t kills = kill_count(kKills);

  for (std::uint32_t i = 0; i <= kills; ++i) {
    INFO("kill " << i);
    const UniqueFd progress(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const auto seed = static_cast<std::uint32_t>(random());
    Child victim([&] { return copy_until_killed(scene, options, seed, progress.get()); });
    await_moment(progress.get(), random, watch);

    victim.kill_now();

    const std::uint64_t killed_ms = monotonic_ms();
    expect_honest(honest, i);
    if (i == 0) {  // the first makes what stays
      baseline = settled(scene, watch);
      continue;
    }
    Holdings last;
    const bool back = eventually(
        [&] { return (last = watch.look()) == baseline && is_clean(scene, by_rank); }, 20'000);
    longest_ms = std::max(longest_ms, monotonic_ms() - killed_ms);
    INFO("baseline: " << text_of(baseline) << "\nnow:      " << text_of(last) << "\n"
                      << scene.daemon().log());
    REQUIRE(back);
    expect_right(honest, honest_keys(i));  // whatever was queued by the dead has ended
    expect_honest(honest, 1000 + i);
  }
  if (kills > kKills) {
    CHECK(longest_ms <= kRankGoneMs);
    WARN(kills << " ranks killed; longest wait for the baseline " << longest_ms << " ms");
  }
  CHECK(honest.close() == HICACHE_OK);
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
