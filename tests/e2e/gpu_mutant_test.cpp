// SPDX-License-Identifier: Apache-2.0
// gpu_mutant_test: the stories would see the small bugs of HC_GPU_MUTANTS (proto/test_hooks.h), and
// a daemon may die at HC_GPU_FAILPOINTS.
#include "e2e/gpu_stories.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "e2e/process.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

TEST_CASE("Each small bug of the copies is seen by its story") {
  for (const Story& story : gpu_stories()) {
    for (const std::string& mutant : story.mutants) {
      INFO(story.name << ": " << mutant);
      CHECK(told(story, mutant) == 1);
    }
  }
}

TEST_CASE("Each small bug at the end of a session leaves something open in the driver") {
  for (const char* mutant : {"awaits_not_cancelled", "owner_events_kept", "chunks_kept"}) {
    INFO(mutant);
    GpuScene scene({.mutant = mutant});
    RankOptions options = scene.rank_options();
    options.device = BenchDevice::cuda_chunks;
    FakeLine line;
    Child rank([&] { return store_and_stay(line, options, "stream_stall@1=1"); });
    line.be_parent();
    REQUIRE(line.wait());
    rank.kill_now();
    REQUIRE(eventually([&] { return scene.daemon().ask("status").at("sessions").empty(); }));

    CHECK(holds_in_child([&] {  // all that comes after has been done
      use_stand_in("");
      Rank later(scene.rank_options("later"));
      HC_EXPECT(later.open() == HICACHE_OK);
      HC_EXPECT(later.store({1, 4, 0}).code == HICACHE_OK);
      return 0;
    }));
    CHECK_FALSE(eventually([&] { return scene.is_clean(); }, 500));
  }
}

// Stores and loads until the daemon dies; with the next one all that was durable is there.
int go_on_after_death(FakeLine& line, RankOptions options) {
  line.be_child();
  use_stand_in("");
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::vector<std::uint64_t> durable;
  bool lives = true;
  for (std::uint64_t page = 10; lives; page += 4) {
    const hicache_code stored = rank.store({page, 4, 0}, HICACHE_ACK_DURABLE).code;
    HC_EXPECT(stored == HICACHE_OK || stored == HICACHE_DISCONNECTED);
    if (stored == HICACHE_OK) {
      durable.push_back(page);
    }
    const hicache_code loaded = rank.load({page, 4, 8}).code;
    lives = stored == HICACHE_OK && loaded == HICACHE_OK;
    HC_EXPECT(!lives || rank.wrong_bytes({page, 4, 8}) == 0);
  }
  line.go();
  HC_EXPECT(line.wait());
  HC_EXPECT(rank.wait_serving());
  for (const std::uint64_t page : durable) {
    HC_EXPECT(rank.reload({page, 4, 0}).code == HICACHE_OK);
    HC_EXPECT(rank.load({page, 4, 8}).code == HICACHE_OK);
    HC_EXPECT(rank.wrong_bytes({page, 4, 8}) == 0);
  }
  HC_EXPECT(rank.store({900, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  return 0;
}

TEST_CASE("A daemon that dies with copies just queued costs what was not durable, and no byte") {
  for (const char* failpoint : {"gpu_batch_issued", "gpu_batch_issued:2", "gpu_batch_issued:7"}) {
    INFO(failpoint);
    GpuScene scene({.daemon = "version=13000,outlive_us=300000,stream_delay_us=10000",
                    .failpoint = failpoint});
    FakeLine line;
    Child rank([&] { return go_on_after_death(line, scene.rank_options()); });
    line.be_parent();
    CHECK(line.wait());
    REQUIRE(eventually([&] { return scene.daemon().was_killed(); }));
    scene.daemon().options().environment.pop_back();

    scene.daemon().start();

    line.go();
    CHECK(rank.wait() == 0);
    INFO(scene.daemon().log());
    CHECK(scene.daemon().stop() == 0);
  }
}

}  // namespace
}  // namespace hc::test
