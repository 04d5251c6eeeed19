// SPDX-License-Identifier: Apache-2.0
// rank_copy_mutant_test: small bugs of the daemon around copies by ranks (HC_GPU_MUTANTS of
// proto/test_hooks.h), each with what would be seen of it.
#include <functional>
#include <string>
#include <vector>

#include "e2e/rank_copy_raw.h"
#include "e2e/rank_copy_reuse.h"
#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr int kSeen = 7;  // of the child that tells a story

// A copy fails; nobody may be told that its page is there.
int store_what_fails(RankCopyScene& scene) {
  scene.give_driver("version=12010,cuMemcpyDtoHAsync@2=1");
  Rank rank(scene.on_device());
  HC_EXPECT(rank.open() == HICACHE_OK);
  const hicache_code code = rank.store({10, 2, 0}).code;
  HC_EXPECT(code == HICACHE_OK || code == HICACHE_IO_ERROR);
  return code == HICACHE_OK ? kSeen : 0;
}

// A client hangs up and lives: its copies may still run.
int live_without_a_word(RankCopyScene& scene) {
  RawRank client(scene.on_host("silent"));
  HC_EXPECT(client.open());
  client.begin(1);
  client.hang_up();
  HC_EXPECT(eventually([&] { return client.end_code() == Code::disconnected; }));
  Rank other(scene.on_host("other"));
  HC_EXPECT(other.open() == HICACHE_OK);
  HC_EXPECT(other.store({10, 4, 0}).code == HICACHE_OK);
  return scene.stat("operations_open") == 0 ? kSeen : 0;
}

// What was stored must verify when it comes back from the disk.
int read_back(RankCopyScene& scene) {
  scene.give_driver("");
  Rank rank(scene.on_device());
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(rank.store({10, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  for (std::uint64_t page = 1000; page < 1200; page += 8) {  // more than the memory holds
    HC_EXPECT(rank.store({page, 8, 8}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  }
  const hicache_code code = rank.load({10, 4, 20}).code;
  HC_EXPECT(code == HICACHE_OK || code == HICACHE_NOT_FOUND);
  return code == HICACHE_OK ? 0 : kSeen;
}

// A word about an operation that had the slot before.
int say_of_another_use(RankCopyScene& scene) {
  RawRank client(scene.on_host("stale"));
  HC_EXPECT(client.open());
  RequestEntry word = RawRank::copied(client.begin(1));
  ++word.op_sequence;
  client.push(word);
  HC_EXPECT(eventually([&] {
    return client.end_code() == Code::protocol || client.completions_reach(2);
  }));
  return client.end_code() == Code::protocol ? 0 : kSeen;
}

struct RankStory {
  std::string mutant;
  std::function<int(RankCopyScene&)> tell;
};

TEST_CASE("Each small bug around copies by ranks is seen") {
  const std::vector<RankStory> stories{
      {"rank_failure_believed", store_what_fails},
      {"rank_freed_while_alive", live_without_a_word},
      {"rank_sum_skipped", read_back},
      {"rank_word_of_any_use", say_of_another_use},
  };
  for (const RankStory& story : stories) {
    for (const bool has_bug : {false, true}) {
      INFO(story.mutant << " " << has_bug);
      RankCopyPlan plan;
      plan.mutant = has_bug ? story.mutant : "";
      plan.l2_bytes = 2U << 20;
      RankCopyScene scene(plan);

      const int seen = Child([&] { return story.tell(scene); }).wait();

      INFO(scene.daemon().log());
      CHECK(seen == (has_bug ? kSeen : 0));
    }
  }
}

TEST_CASE("Without the grace the frames of a dead rank are overwritten, and a test sees it") {
  const Reuse seen = reuse_after_death("quarantine_skipped");

  CHECK(seen.outlived > 0);
  CHECK(seen.after_ms < kGpuGraceMs);
  CHECK(seen.wrong_bytes > 0);
}

}  // namespace
}  // namespace hc::test
