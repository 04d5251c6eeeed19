// SPDX-License-Identifier: Apache-2.0
// rank_copy_close_test: clients that go, break off or switch while copies of their own run.
#include <array>
#include <string>
#include <vector>

#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

// Each copy takes 10 ms.
constexpr const char* kSlowCopies = "version=12010,stream_delay_us@2=10000,stream_delay_us@3=10000";

// What the daemon holds of `group`, while its process lives.
bool holds_nothing(const RankCopyScene& scene) {
  return scene.daemon_sessions() == 0 && scene.stat("operations_open") == 0 &&
         scene.stat("frames_leased") == 0;
}

// Closes in the middle of copies, and lives on.
int close_in_the_middle(FakeLine& line, const RankCopyScene& scene, std::uint32_t timeout_ms) {
  line.be_child();
  scene.give_driver(kSlowCopies);
  Rank rank(scene.on_device());
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(rank.store({50, 4, 40}).code == HICACHE_OK);
  HC_EXPECT(rank.pin({50, 4, 40}).lease != 0);
  std::array<std::uint64_t, 3> ops{};
  HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {100, 8, 0}, ops[0], HICACHE_ACK_RESIDENT) ==
            HICACHE_OK);
  HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {200, 8, 8}, ops[1], HICACHE_ACK_RESIDENT) ==
            HICACHE_OK);
  HC_EXPECT(rank.submit(HICACHE_VERB_LOAD, {50, 4, 20}, ops[2]) == HICACHE_OK);
  const long before = cuda_count("copies");
  HC_EXPECT(eventually([&] { return cuda_count("copies") > before; }));
  const hicache_code code = rank.close(timeout_ms);
  const long ended = cuda_count("copies");
  // A short time passes before the copies have ended, unless the machine stalls this process.
  HC_EXPECT(code == HICACHE_OK || (timeout_ms < 100 && code == HICACHE_TIMED_OUT));
  HC_EXPECT(cuda_count("registered") == 0);
  line.go();
  HC_EXPECT(line.wait());
  HC_EXPECT(cuda_count("copies") == ended);  // nothing went on behind the close
  return 0;
}

TEST_CASE("A close in the middle of copies leaves nothing in the daemon, however short its time") {
  const auto timeout_ms = GENERATE(0U, 1U, 20'000U);
  INFO("timeout_ms " << timeout_ms);
  RankCopyScene scene;
  warm_rank_copies(scene);
  FakeLine line;
  Child rank([&] { return close_in_the_middle(line, scene, timeout_ms); });
  line.be_parent();
  REQUIRE(line.wait());

  const bool free = eventually([&] { return holds_nothing(scene); }, 10'000);

  INFO(scene.daemon().log());
  CHECK(free);  // its process lives
  line.go();
  CHECK(rank.wait() == 0);
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A switch of the weights in the middle of copies waits for them, and no byte is wrong") {
  RankCopyScene scene;
  CHECK(holds_in_child([&] {
    scene.give_driver(kSlowCopies);
    Rank rank(scene.on_device());
    HC_EXPECT(rank.open() == HICACHE_OK);
    for (std::uint32_t round = 0; round < 4; ++round) {
      std::array<std::uint64_t, 2> ops{};
      for (std::uint32_t i = 0; i < 2; ++i) {
        HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {100 + 10 * i, 4, 4 * i}, ops[i],
                              HICACHE_ACK_RESIDENT) == HICACHE_OK);
      }
      HC_EXPECT(rank.switch_to("weights " + std::to_string(round)) == HICACHE_OK);
      for (const std::uint64_t op : ops) {
        const hicache_code code = rank.finish(op).code;
        HC_EXPECT(code == HICACHE_OK || code == HICACHE_CANCELLED);
      }
      HC_EXPECT(rank.present({100, 1, 0}) == 0);
      HC_EXPECT(rank.store({100, 4, 0}).code == HICACHE_OK);
      HC_EXPECT(rank.load({100, 4, 16}).code == HICACHE_OK);
      HC_EXPECT(rank.wrong_bytes({100, 4, 16}) == 0);
    }
    return 0;
  }));
  INFO(scene.daemon().log());
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A deadline that passes during copies is told late, and ends when the copies have") {
  RankCopyScene scene;
  CHECK(holds_in_child([&] {
    scene.give_driver(kSlowCopies);
    Rank rank(scene.on_device());
    HC_EXPECT(rank.open() == HICACHE_OK);
    const std::vector<hicache_page> pages = rank.pages_of({100, 8, 0});
    hicache_op op{};
    op.deadline_ms = 5;
    op.ack = HICACHE_ACK_RESIDENT;
    std::uint64_t op_id = 0;
    HC_EXPECT(hicache_store(rank.client(), &op, pages.data(), pages.size(), &op_id) ==
              HICACHE_OK);
    bool late = false;
    for (bool ended = false; !ended;) {
      hicache_completion done{};
      std::size_t count = 0;
      HC_EXPECT(hicache_wait(rank.client(), &done, 1, kPatienceMs, &count) == HICACHE_OK);
      ended = count == 1 && done.terminal != 0;
      late = late || done.ack == HICACHE_ACK_LATE;
      HC_EXPECT(!ended || done.code == HICACHE_TIMED_OUT);
    }
    HC_EXPECT(late);
    HC_EXPECT(cuda_count("copies") >= 24);  // all of them had been queued
    HC_EXPECT(rank.present({100, 1, 0}) == 0);
    return 0;
  }));
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A region can't be taken back while copies of it run, and afterwards it can") {
  RankCopyScene scene;
  CHECK(holds_in_child([&] {
    scene.give_driver(kSlowCopies);
    Rank rank(scene.on_device());
    HC_EXPECT(rank.open() == HICACHE_OK);
    std::uint64_t op = 0;
    HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {100, 4, 0}, op, HICACHE_ACK_RESIDENT) ==
              HICACHE_OK);
    HC_EXPECT(hicache_unregister_region(rank.client(), 0, Rank::kDeadlineMs) == HICACHE_BUSY);
    HC_EXPECT(rank.finish(op).code == HICACHE_OK);
    HC_EXPECT(hicache_unregister_region(rank.client(), 0, Rank::kDeadlineMs) == HICACHE_OK);
    HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {200, 4, 0}, op, HICACHE_ACK_RESIDENT) ==
              HICACHE_BAD_ARGUMENT);
    return 0;
  }));
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
