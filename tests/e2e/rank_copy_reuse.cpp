// SPDX-License-Identifier: Apache-2.0
// rank_copy_reuse: a rank that fills every frame, slowly, and another that wants them.
#include "e2e/rank_copy_reuse.h"

#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {

namespace {

constexpr std::uint32_t kLargePage = 1'000'001;

// Stores into every frame there is, slowly, and says so.
int fill_all_frames(FakeLine& line, const RankCopyScene& scene, std::uint32_t frames) {
  line.be_child();
  scene.give_driver(
      "version=12010,stream_delay_us@2=15000,stream_delay_us@3=15000,outlive_us=800000");
  RankOptions options = scene.on_device("victim");
  options.rows = frames;
  Rank rank(options);
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::uint64_t op = 0;
  HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {100, frames, 0}, op, HICACHE_ACK_RESIDENT) ==
            HICACHE_OK);
  line.go();
  return line.wait() ? 0 : 1;
}

}  // namespace

Reuse reuse_after_death(const std::string& mutant) {
  RankCopyPlan plan;
  plan.mutant = mutant;
  plan.l2_bytes = 10U << 20;
  plan.payload_bytes = kLargePage;
  RankCopyScene scene(plan);
  warm_rank_copies(scene);
  Reuse seen;
  FakeLine line;
  const auto frames = static_cast<std::uint32_t>(scene.stat("frames_total"));
  REQUIRE(frames > 8);
  REQUIRE(eventually([&] { return scene.stat("frames_free") == frames; }));
  Child victim([&] { return fill_all_frames(line, scene, frames); });
  line.be_parent();
  REQUIRE(line.wait());
  Rank other(scene.on_host("other"));
  REQUIRE(other.open() == HICACHE_OK);
  const pid_t pid = victim.pid();
  REQUIRE(eventually([&] { return scene.count(pid, "copies") > 2; }));
  REQUIRE(other.store({500, 1, 0}).code == HICACHE_BUSY);  // nothing is left

  victim.kill_now();

  const std::uint64_t killed_ms = monotonic_ms();
  const Keys keys{600, 4, 0};
  seen.stored = eventually([&] { return other.store(keys).code == HICACHE_OK; });
  seen.after_ms = monotonic_ms() - killed_ms;
  REQUIRE(eventually([&] { return scene.daemon().ask("status").at("sessions").size() == 1; }));
  seen.back_ms = monotonic_ms() - killed_ms;
  REQUIRE(eventually([&] { return monotonic_ms() - killed_ms >= kRankGoneMs; }));
  seen.outlived = scene.count(pid, "outlived");
  CHECK(other.load({600, 4, 8}).code == HICACHE_OK);
  seen.wrong_bytes = other.wrong_bytes({600, 4, 8});
  CHECK(other.present({100, 1, 0}) == 0);  // what was half stored is nowhere
  CHECK(scene.stat("frames_leased") == 0);
  CHECK(scene.stat("operations_open") == 0);
  INFO(scene.daemon().log());
  CHECK(other.close() == HICACHE_OK);
  CHECK(scene.daemon().stop() == 0);
  return seen;
}

}  // namespace hc::test
