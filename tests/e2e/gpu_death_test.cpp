// SPDX-License-Identifier: Apache-2.0
// gpu_death_test: a rank or a daemon that dies while copies of device memory run, events that are
// never reached, and a device that is lost.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "e2e/gpu_scene.h"
#include "e2e/holdings.h"
#include "e2e/process.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

TEST_CASE("A rank killed while its copies run, or never can, leaves nothing behind") {
  struct Death {
    const char* daemon;
    const char* rank;
  };
  const auto death = GENERATE(Death{"version=13000,stream_delay_us=200000", ""},
                              Death{"version=12010,stream_delay_us=5000", ""},
                              Death{"", "stream_stall@1=1"});
  INFO(death.daemon << " " << death.rank);
  GpuScene scene({.daemon = death.daemon});
  warm_up(scene);
  Watch watch(scene.daemon());
  const Holdings baseline = watch.settled();
  const long all = scene.count("copies") + 8 * 4 * 3;  // a slow test may come when they are done
  FakeLine line;
  Child rank([&] { return store_and_stay(line, scene.rank_options(), death.rank); });
  line.be_parent();
  REQUIRE(line.wait());
  REQUIRE(scene.count("mappings") == 1);
  CHECK(eventually([&] {
    return watch.look().operations_open > 0 || scene.count("copies") >= all;
  }));

  rank.kill_now();

  Holdings last;
  const bool back = eventually(
      [&] { return (last = watch.look()) == baseline && scene.is_clean(); });
  INFO(text_of(baseline) << "\n" << text_of(last) << "\n" << scene.daemon().log());
  CHECK(back);
  CHECK(scene.daemon().stop() == 0);
}

// Comes, stores and loads without end, in another order each time.
int use_gpu(FakeLine& line, const GpuScene& scene, std::uint32_t seed) {
  line.be_child();
  use_stand_in("");
  Rank rank(scene.rank_options());
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::mt19937 random(seed);
  while (true) {
    std::array<std::uint64_t, 6> ops{};
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      const std::uint8_t verb = random() % 2 == 0 ? HICACHE_VERB_STORE : HICACHE_VERB_LOAD;
      HC_EXPECT(rank.submit(verb, {random() % 200, 4, 4 * i}, ops[i], HICACHE_ACK_RESIDENT) ==
                HICACHE_OK);
    }
    line.go();
    for (const std::uint64_t op : ops) {
      HC_EXPECT(rank.finish(op).code != Rank::kNeverEnded);
    }
  }
}

TEST_CASE("Ranks that come and are killed at any moment leave nothing behind") {
  GpuScene scene({.daemon = "version=13000,stream_delay_us=500"});
  warm_up(scene);
  Watch watch(scene.daemon());
  const Holdings baseline = watch.settled();
  const std::size_t mappings = scene.daemon().mappings();
  std::mt19937 random(11);
  constexpr std::uint32_t kKills = 10;
  const std::uint32_t kills = kill_count(kKills);
  std::uint64_t longest_ms = 0;
  for (std::uint32_t i = 0; i < kills; ++i) {
    INFO("kill " << i);
    FakeLine line;
    const auto seed = static_cast<std::uint32_t>(random());
    Child rank([&] { return use_gpu(line, scene, seed); });
    line.be_parent();
    for (std::uint64_t rounds = random() % 4; rounds > 0; --rounds) {
      REQUIRE(line.wait());
    }
    for (std::uint64_t looks = random() % 5; looks > 0; --looks) {
      watch.look();
    }

    rank.kill_now();

    const std::uint64_t killed_ms = monotonic_ms();
    Holdings last;
    const bool back = eventually(
        [&] { return (last = watch.look()) == baseline && scene.is_clean(); });
    longest_ms = std::max(longest_ms, monotonic_ms() - killed_ms);
    INFO(text_of(baseline) << "\n" << text_of(last) << "\n" << scene.daemon().log());
    REQUIRE(back);
  }
  if (kills > kKills) {
    CHECK(longest_ms < 1000);
    WARN(kills << " ranks killed; longest wait for the baseline " << longest_ms << " ms");
  }
  CHECK(scene.daemon().mappings() < mappings + 10 + kills / 2);
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A stop does not wait for an event that is never reached, and closes what is open") {
  GpuScene scene;
  FakeLine line;
  Child rank([&] { return store_and_stay(line, scene.rank_options(), "stream_stall@1=1"); });
  line.be_parent();
  REQUIRE(line.wait());
  REQUIRE(scene.count("mappings") == 1);
  const pid_t pid = scene.daemon().pid();

  CHECK(scene.daemon().stop() == 0);

  INFO(scene.daemon().log());
  for (const char* what : {"mappings", "opened_events", "events", "streams", "registered",
                           "retains"}) {
    INFO(what);
    CHECK(scene.count_of(pid, what) == 0);
  }
}

TEST_CASE("Operations behind an event that is never reached end by their deadline") {
  GpuScene scene;
  CHECK(holds_in_child([&] {
    use_stand_in("stream_stall@1=1");
    RankOptions options = scene.rank_options();
    options.deadline_ms = 300;
    Rank rank(options);
    HC_EXPECT(rank.open() == HICACHE_OK);
    HC_EXPECT(rank.store({10, 4, 0}).code == HICACHE_TIMED_OUT);
    HC_EXPECT(rank.store({20, 4, 8}).code == HICACHE_TIMED_OUT);
    HC_EXPECT(rank.load({10, 4, 4}).code != HICACHE_OK);
    // No operation names the region, and nobody waits in it.
    HC_EXPECT(hicache_unregister_region(rank.client(), 0, Rank::kDeadlineMs) == HICACHE_OK);
    HC_EXPECT(eventually([&] { return scene.is_clean(); }));
    ::_exit(0);  // a stream that stands still can't be destroyed
  }));
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A session that submits and cancels behind an event that is never reached harms nobody") {
  GpuScene scene;
  warm_up(scene);
  Watch watch(scene.daemon());
  const Holdings baseline = watch.settled();
  CHECK(holds_in_child([&] {
    use_stand_in("stream_stall@1=1");
    Rank rank(scene.rank_options());
    HC_EXPECT(rank.open() == HICACHE_OK);
    for (std::uint32_t i = 0; i < 100; ++i) {
      std::uint64_t op = 0;
      std::uint64_t cancel_op = 0;
      const std::uint8_t verb = i % 3 == 0 ? HICACHE_VERB_STORE : HICACHE_VERB_LOAD;
      HC_EXPECT(rank.submit(verb, {10, 1, 0}, op, HICACHE_ACK_RESIDENT) == HICACHE_OK);
      hicache_op cancel{};
      cancel.deadline_ms = Rank::kDeadlineMs;
      HC_EXPECT(hicache_cancel(rank.client(), &cancel, op, &cancel_op) == HICACHE_OK);
      const hicache_code code = rank.finish(op).code;
      const bool is_miss = verb == HICACHE_VERB_LOAD && code == HICACHE_NOT_FOUND;
      HC_EXPECT(code == HICACHE_CANCELLED || is_miss);
      HC_EXPECT(rank.finish(cancel_op).code != Rank::kNeverEnded);
    }
    ::_exit(0);  // a stream that stands still can't be destroyed
  }));
  Holdings last;
  CHECK(eventually([&] { return (last = watch.look()) == baseline && scene.is_clean(); }));
  INFO(text_of(baseline) << "\n" << text_of(last) << "\n" << scene.daemon().log());
  CHECK(last == baseline);
  CHECK(scene.daemon().stop() == 0);
}

// Loads slowly; when the daemon has died under it, nothing writes there after the last word.
int load_until_death(FakeLine& line, RankOptions options) {
  line.be_child();
  use_stand_in("");
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  const Keys keys{10, 16, 0};
  HC_EXPECT(rank.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  std::uint64_t op = 0;
  HC_EXPECT(rank.submit(HICACHE_VERB_LOAD, {10, 16, 16}, op) == HICACHE_OK);
  line.go();
  bool late = false;
  bool ended = false;
  while (!ended) {
    std::array<hicache_completion, 8> batch{};
    std::size_t count = 0;
    HC_EXPECT(hicache_wait(rank.client(), batch.data(), batch.size(), kPatienceMs, &count) ==
              HICACHE_OK);
    for (std::size_t i = 0; i < count; ++i) {
      HC_EXPECT(batch[i].op_id == op);
      late = late || batch[i].ack == HICACHE_ACK_LATE;
      ended = batch[i].terminal != 0;
      HC_EXPECT(!ended || batch[i].code == HICACHE_DISCONNECTED);
    }
  }
  HC_EXPECT(late);  // before the memory was free
  const std::uint64_t wrong = rank.wrong_bytes({10, 16, 16});
  line.send(wrong);
  HC_EXPECT(line.wait());  // the helper that went on has ended
  HC_EXPECT(rank.wrong_bytes({10, 16, 16}) == wrong);
  HC_EXPECT(line.wait());  // another daemon is there
  HC_EXPECT(rank.wait_serving());
  HC_EXPECT(rank.load({10, 16, 16}).code == HICACHE_OK);
  HC_EXPECT(rank.wrong_bytes({10, 16, 16}) == 0);
  HC_EXPECT(rank.store({40, 4, 0}).code == HICACHE_OK);
  return 0;
}

TEST_CASE("Copies that go on after the daemon's death end before the memory is given back") {
  GpuScene scene({.daemon = "version=12010,outlive_us=400000,stream_delay_us=20000"});
  FakeLine line;
  Child rank([&] { return load_until_death(line, scene.rank_options()); });
  line.be_parent();
  REQUIRE(line.wait());
  const pid_t pid = scene.daemon().pid();
  const long before = scene.count("copies");
  REQUIRE(eventually([&] { return scene.count("copies") > before; }));

  scene.daemon().kill_now();

  std::uint64_t wrong = 0;
  REQUIRE(line.receive(wrong));
  CHECK(wrong > 0);  // the load was cut short
  const long outlived = scene.count_of(pid, "outlived");
  CHECK(outlived > 0);
  CHECK_FALSE(eventually([&] { return scene.count_of(pid, "outlived") != outlived; }, 300));
  line.go();
  scene.daemon().start();
  line.go();
  CHECK(rank.wait() == 0);
  INFO(scene.daemon().log());
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A device that is lost costs its sessions their copies, and nobody else anything") {
  const auto* const plan = GENERATE("version=12010,cuMemcpyHtoDAsync@4=700",
                                    "version=12010,cuMemcpyDtoHAsync@20=719");
  INFO(plan);
  GpuScene scene({.daemon = plan});
  RankOptions host = scene.rank_options("host");
  host.device = BenchDevice::host;
  Rank other(host);
  REQUIRE(other.open() == HICACHE_OK);
  REQUIRE(other.store({500, 8, 0}).code == HICACHE_OK);
  const pid_t pid = scene.daemon().pid();

  CHECK(holds_in_child([&] {
    use_stand_in("");
    Rank rank(scene.rank_options());
    HC_EXPECT(rank.open() == HICACHE_OK);
    std::uint32_t failed = 0;
    for (std::uint32_t i = 0; i < 12; ++i) {
      const Keys keys{10 + 4 * i, 4, 0};
      const hicache_code stored = rank.store(keys).code;
      const hicache_code loaded = rank.load({10 + 4 * i, 4, 8}).code;
      HC_EXPECT(loaded != HICACHE_OK || rank.wrong_bytes({10 + 4 * i, 4, 8}) == 0);
      HC_EXPECT(stored != Rank::kNeverEnded && loaded != Rank::kNeverEnded);
      failed += stored != HICACHE_OK || loaded != HICACHE_OK ? 1 : 0;
    }
    HC_EXPECT(failed > 3);
    return 0;
  }));
  CHECK(holds_in_child([&] {
    use_stand_in("");
    Rank rank(scene.rank_options("later"));
    HC_EXPECT(rank.open() == HICACHE_IO_ERROR);
    HC_EXPECT(std::string(hicache_last_error()).find("must be started again") !=
              std::string::npos);
    return 0;
  }));

  CHECK(other.load({500, 8, 8}).code == HICACHE_OK);
  CHECK(other.wrong_bytes({500, 8, 8}) == 0);
  CHECK(other.store({600, 8, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  CHECK(scene.daemon().ask("status").at("pid") == pid);
  CHECK(occurrences(scene.daemon().log(), "gpu.lost") == 1);
  other.close();
  INFO(scene.daemon().log());
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
