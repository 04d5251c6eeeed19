// SPDX-License-Identifier: Apache-2.0
// rank_copy_death_test: a rank that dies while its copies into frames run: the copies go on, as a
// device's do, so the frames are nobody's until the grace is over.
#include <string>
#include <vector>

#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kLargePage = 1'000'001;
// Longer than the copies go on after the death, and shorter than twice that.
constexpr int kBackMs = 1000 + int{kGpuGraceMs};

// Stores into every frame there is, slowly, and says so.
int fill_all_frames(FakeLine& line, const RankCopyScene& scene, std::uint32_t frames) {
  line.be_child();
  scene.give_driver("version=12010,stream_delay_us@2=15000,stream_delay_us@3=15000,outlive_us=800000");
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

struct Reuse {
  bool stored = false;
  std::uint64_t after_ms = 0;  // of the death
  std::uint64_t wrong_bytes = 0;
  std::uint64_t back_ms = 0;
  long outlived = 0;
};

// What becomes of frames whose rank was killed in the middle of its copies.
Reuse reuse_after_death(const RankCopyPlan& plan) {
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
  REQUIRE(eventually([&] { return monotonic_ms() - killed_ms >= kBackMs; }));
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

RankCopyPlan large_pages(const std::string& mutant = "") {
  RankCopyPlan plan;
  plan.mutant = mutant;
  plan.l2_bytes = 10U << 20;
  plan.payload_bytes = kLargePage;
  return plan;
}

TEST_CASE("Frames of a dead rank are nobody's until what it had queued in its device has ended") {
  const Reuse seen = reuse_after_death(large_pages());

  CHECK(seen.outlived > 0);  // its copies went on
  CHECK(seen.stored);
  CHECK(seen.after_ms >= kGpuGraceMs);
  CHECK(seen.back_ms <= kBackMs);
  CHECK(seen.wrong_bytes == 0);
}

TEST_CASE("Without the grace the frames of a dead rank are overwritten, and a test sees it") {
  const Reuse seen = reuse_after_death(large_pages("quarantine_skipped"));

  CHECK(seen.outlived > 0);
  CHECK(seen.after_ms < kGpuGraceMs);
  CHECK(seen.wrong_bytes > 0);
}

// Rows as they are: a device that is lost can't be filled.
hicache_code copy_rows(Rank& rank, std::uint8_t verb, const Keys& keys) {
  const std::vector<hicache_page> pages = rank.pages_of(keys);
  hicache_op op{};
  op.deadline_ms = Rank::kDeadlineMs;
  std::uint64_t op_id = 0;
  const auto call = verb == HICACHE_VERB_STORE ? hicache_store : hicache_load;
  const hicache_code code = call(rank.client(), &op, pages.data(), pages.size(), &op_id);
  return code == HICACHE_OK ? rank.finish(op_id).code : code;
}

// Its device is lost in the middle: what it is told of then fails, and it can still go.
int lose_the_device(const RankCopyScene& scene, const char* plan) {
  scene.give_driver(plan);
  Rank rank(scene.on_device("lost"));
  HC_EXPECT(rank.open() == HICACHE_OK);
  rank.fill_rows({1000, 48, 0});
  HC_EXPECT(rank.wrong_bytes({1000, 48, 0}) == 0);  // and it has waited for them
  std::uint32_t failed = 0;
  for (std::uint32_t i = 0; i < 12; ++i) {
    const hicache_code stored = copy_rows(rank, HICACHE_VERB_STORE, {1000 + 4 * i, 4, 4 * i});
    const hicache_code loaded = copy_rows(rank, HICACHE_VERB_LOAD, {500, 4, 50});
    HC_EXPECT(stored == HICACHE_OK || stored == HICACHE_IO_ERROR);
    HC_EXPECT(loaded == HICACHE_OK || loaded == HICACHE_IO_ERROR);
    failed += stored == HICACHE_IO_ERROR && loaded == HICACHE_IO_ERROR ? 1 : 0;
  }
  HC_EXPECT(failed > 3);
  HC_EXPECT(hicache_state(rank.client()) == HICACHE_OK);
  HC_EXPECT(rank.close() == HICACHE_OK);
  return 0;
}

TEST_CASE("A device that is lost costs its rank its copies, and the others nothing") {
  const auto* const plan = GENERATE("version=12010,cuMemcpyHtoDAsync@200=700",
                                    "version=12010,cuMemcpyDtoHAsync@190=719");
  INFO(plan);
  RankCopyScene scene;
  Rank other(scene.on_host("other"));
  REQUIRE(other.open() == HICACHE_OK);
  REQUIRE(other.store({500, 4, 0}).code == HICACHE_OK);

  const int result = Child([&] { return lose_the_device(scene, plan); }).wait();

  INFO(scene.daemon().log());
  CHECK(result == 0);
  CHECK(eventually([&] { return scene.daemon_sessions() == 1; }, kBackMs));
  CHECK(scene.stat("operations_open") == 0);
  for (std::uint64_t page = 1000; page < 1048; ++page) {  // whatever is there is right
    const hicache_code code = other.load({page, 1, 8}).code;
    CHECK((code == HICACHE_OK || code == HICACHE_NOT_FOUND));
    CHECK((code != HICACHE_OK || other.wrong_bytes({page, 1, 8}) == 0));
  }
  CHECK(other.load({500, 4, 20}).code == HICACHE_OK);
  CHECK(other.wrong_bytes({500, 4, 20}) == 0);
  CHECK(other.close() == HICACHE_OK);
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
