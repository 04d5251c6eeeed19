// SPDX-License-Identifier: Apache-2.0
// rank_copy_death_test: a rank that dies while its copies into frames run: the copies go on, as a
// device's do, so the frames are nobody's until the grace is over.
#include <string>
#include <vector>

#include "e2e/rank_copy_reuse.h"
#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

TEST_CASE("Frames of a dead rank are nobody's until what it had queued in its device has ended") {
  const Reuse seen = reuse_after_death("");

  CHECK(seen.outlived > 0);  // its copies went on
  CHECK(seen.stored);
  CHECK(seen.after_ms >= kGpuGraceMs);
  CHECK(seen.back_ms <= kRankGoneMs);
  CHECK(seen.wrong_bytes == 0);
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
  CHECK(eventually([&] { return scene.daemon_sessions() == 1; }, kRankGoneMs));
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
