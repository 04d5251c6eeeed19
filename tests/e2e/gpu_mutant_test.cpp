// SPDX-License-Identifier: Apache-2.0
// gpu_mutant_test: the stories would see the small bugs of HC_GPU_MUTANTS (proto/test_hooks.h).
#include "e2e/gpu_stories.h"
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
  for (const char* mutant : {"awaits_not_cancelled", "owner_events_kept"}) {
    INFO(mutant);
    GpuScene scene({"", mutant});
    FakeLine line;
    Child rank([&] { return store_and_stay(line, scene, "stream_stall@1=1"); });
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

}  // namespace
}  // namespace hc::test
