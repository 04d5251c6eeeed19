// SPDX-License-Identifier: Apache-2.0
// group_test: ranks of one engine over a real daemon: what they agree on.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/group_stage.h"
#include "support/catch.h"

namespace hc::test {
namespace {

std::uint64_t leased_frames(const DaemonProcess& daemon) {
  return daemon.ask("stats").at("frames_leased").get<std::uint64_t>();
}

TEST_CASE("group: a miss is reloaded on all ranks, and nothing is left when they go") {
  DaemonProcess daemon(roomy());
  daemon.start();
  run_ranks(daemon, [](GroupRank& at, std::uint16_t) {
    std::string said = store_and_reload(at, 1);
    const std::uint64_t reduces = at.stats().reduces;
    for (int i = 0; i < 40; ++i) {
      said += at.pass() == HICACHE_OK ? "" : "a pass failed";
    }
    said += at.stats().reduces == reduces ? "" : "a reduce with nothing open";
    said += at.stats().admitted == 1 && at.divergences() == 0 ? "" : "not what was decided";
    return said;
  });
  CHECK(eventually([&] { return leased_frames(daemon) == 0; }));
}

TEST_CASE("group: more stores at once than there are operation slots all become durable") {
  constexpr std::uint32_t kStores = 90;
  DaemonProcess daemon(roomy());
  daemon.start();
  const Script script = [](GroupRank& at, std::uint16_t) -> std::string {
    std::vector<std::uint64_t> stores;
    for (std::uint32_t i = 0; i < kStores; ++i) {
      stores.push_back(at.begin_store({i * 100ULL, 1, i}));
    }
    const bool all_begun = std::count(stores.begin(), stores.end(), 0) == 0;
    return all_begun && at.all_durable(stores) ? "" : "a store was lost";
  };
  run_ranks(daemon, script, {.quota_pages = kStores, .rows = kStores});
}

TEST_CASE("group: a closed one gives all its leases back, however many, without being asked") {
  constexpr std::uint32_t kStores = 150;  // more leases than operation slots, twice over
  DaemonProcess daemon(roomy());
  daemon.start();
  RankOptions options = options_of(daemon, 0);
  options.world = 1;
  options.quota_pages = kStores;
  options.rows = kStores;
  GroupRank at(options);
  REQUIRE(at.open() == HICACHE_OK);
  const auto leases = [&] {
    return daemon.ask("status").at("sessions")[0].at("leases").get<std::uint32_t>();
  };
  std::vector<std::uint64_t> stores;
  for (std::uint32_t i = 0; i < kStores; ++i) {
    stores.push_back(at.begin_store({i * 100ULL, 1, i}));
  }
  REQUIRE(at.all_durable(stores));
  REQUIRE(leases() == kStores);

  REQUIRE(at.open_group_anew() == HICACHE_OK);

  CHECK(at.pass_until([&] { return leases() == 0; }) == HICACHE_OK);
}

TEST_CASE("group: a reload that landed before its lease ended is not admitted later") {
  DaemonProcess daemon(roomy());
  daemon.start();
  RankOptions options = options_of(daemon, 0);
  options.world = 1;
  GroupRank at(options);
  REQUIRE(at.open() == HICACHE_OK);
  REQUIRE(store_and_reload(at, 1) == "");
  REQUIRE(at.offer(7, prompt(2)) == HICACHE_DECLINE_NONE);
  REQUIRE(at.tick() == HICACHE_OK);  // begins it
  REQUIRE(eventually([&] { return daemon.ask("status").at("sessions")[0].at("ops") == 0; }));
  REQUIRE(hicache_space_switch(at.rank().client(), "2", kPatienceMs) == HICACHE_OK);
  REQUIRE(at.tick() == HICACHE_OK);

  CHECK_FALSE(at.decided(7));

  CHECK(at.recomputed().at(7) == HICACHE_RECOMPUTE_FAILED);
  CHECK(at.match(prompt(2)).l2_pages == 0);
}

// The engine's own collective, in threads.
struct EngineReduce {
  std::barrier<> gate{kGroupRanks};
  std::mutex mutex;
  std::vector<std::int64_t> least;
  std::array<std::uint64_t, kGroupRanks> calls{};

  static hicache_code reduce(void* context, std::int64_t* words, std::size_t count) {
    auto& at = *static_cast<EngineReduce*>(context);
    {
      const std::lock_guard lock(at.mutex);
      at.least.resize(count, INT64_MAX);
      for (std::size_t i = 0; i < count; ++i) {
        at.least[i] = std::min(at.least[i], words[i]);
      }
    }
    at.gate.arrive_and_wait();
    std::copy_n(at.least.begin(), count, words);
    at.gate.arrive_and_wait();
    {
      const std::lock_guard lock(at.mutex);
      at.least.clear();
    }
    at.gate.arrive_and_wait();
    return HICACHE_OK;
  }
};

TEST_CASE("group: the engine's own reduce carries the words, once per tick with something open") {
  DaemonProcess daemon(roomy());
  daemon.start();
  EngineReduce engine;
  std::array<std::uint64_t, kGroupRanks> reduces{};
  run_ranks(
      daemon,
      [&](GroupRank& at, std::uint16_t rank) {
        const std::string said = store_and_reload(at, 1);
        reduces[rank] = at.stats().reduces;
        return at.stats().agreement == HICACHE_AGREE_HOOK ? said : said + "another agreement";
      },
      {.change = [&](hicache_group_options& options) {
        options.reduce = &EngineReduce::reduce;
        options.reduce_context = &engine;
      }});
  CHECK(reduces[0] > 0);
  CHECK(reduces[0] == reduces[1]);
  CHECK(reduces[0] == reduces[2]);
}

TEST_CASE("group: what is not worth reading back is computed, whoever of the ranks says so") {
  DaemonProcess daemon(roomy());
  daemon.start();
  struct Gate {
    std::uint16_t rank;
  };
  std::array<Gate, kGroupRanks> gates{{{0}, {1}, {2}}};
  std::atomic<std::uint16_t> next{0};
  run_ranks(
      daemon,
      [](GroupRank& at, std::uint16_t) -> std::string {
        for (std::uint64_t number = 1; number <= 4; ++number) {
          if (!at.compute(prompt(number))) {
            return "not durable";
          }
        }
        if (at.offer(1, prompt(1)) != HICACHE_DECLINE_NONE || at.decided(1)) {
          return "admitted";
        }
        return at.recomputed().at(1) == HICACHE_RECOMPUTE_TOO_SHORT ? "" : "another reason";
      },
      {.change = [&](hicache_group_options& options) {
        options.worth_context = &gates[next++ % kGroupRanks];
        options.worth = [](void* context, std::uint64_t, std::uint32_t usable, std::uint32_t) {
          return static_cast<Gate*>(context)->rank == 1 && usable > 0 ? 0 : 1;
        };
      }});
}

TEST_CASE("group: when the daemon comes anew all ranks drop L2 together, and go on") {
  DaemonProcess daemon(roomy());
  daemon.start();
  std::barrier gate(kGroupRanks + 1);
  const Script script = [&](GroupRank& at, std::uint16_t) {
    std::string said = store_and_reload(at, 1);
    gate.arrive_and_wait();
    gate.arrive_and_wait();
    said += at.rank().wait_serving() ? "" : "not attached again";
    // A request that is open makes the ranks speak to each other.
    said += at.offer(50, prompt(50)) == HICACHE_DECLINE_NONE ? "" : "not held";
    said += at.decided(50) ? "admitted from nowhere" : "";
    said += at.pass_until([&] { return at.l2_drops() == 1; }) == HICACHE_OK ? "" : "no drop";
    said += at.match(prompt(4)).l2_pages == 0 ? "" : "L2 pages that nobody has";
    return said + store_and_reload(at, 11) + (at.divergences() == 0 ? "" : "diverged");
  };
  run_ranks(daemon, script, {.meanwhile = [&] {
              gate.arrive_and_wait();
              daemon.kill_now();
              daemon.start();
              gate.arrive_and_wait();
            }});
}

TEST_CASE("group: flush_cache empties the tree on all ranks, and open requests are computed") {
  DaemonProcess daemon(roomy());
  daemon.start();
  run_ranks(daemon, [](GroupRank& at, std::uint16_t) {
    std::string said = store_and_reload(at, 1);
    said += at.offer(60, prompt(2)) == HICACHE_DECLINE_NONE ? "" : "not held";
    said += hicache_group_clear(at.group()) == HICACHE_OK ? "" : "not cleared";
    said += at.match(prompt(4)).l2_pages == 0 && at.stats().nodes == 0 ? "" : "pages are left";
    said += at.decided(60) ? "admitted" : "";
    return said + store_and_reload(at, 11) + (at.divergences() == 0 ? "" : "diverged");
  });
  CHECK(eventually([&] { return leased_frames(daemon) == 0; }));
}

TEST_CASE("group: a value that one rank posts is fetched by the others, also before it is there") {
  DaemonProcess daemon;
  daemon.start();
  Rank one(options_of(daemon, 0));
  Rank other(options_of(daemon, 1));
  REQUIRE(one.open() == HICACHE_OK);
  REQUIRE(other.open() == HICACHE_OK);
  const std::array<std::uint8_t, 3> value{1, 2, 3};
  std::array<std::uint8_t, 8> room{};
  std::size_t bytes = room.size();
  CHECK(hicache_fetch(other.client(), 7, room.data(), &bytes, 50) == HICACHE_TIMED_OUT);
  std::thread fetches([&] {
    CHECK(hicache_fetch(other.client(), 7, room.data(), &bytes, kPatienceMs) == HICACHE_OK);
  });
  CHECK(hicache_post(one.client(), 7, value.data(), value.size(), kPatienceMs) == HICACHE_OK);
  fetches.join();
  CHECK(bytes == 3);
  CHECK(room == std::array<std::uint8_t, 8>{1, 2, 3});
  bytes = 2;
  CHECK(hicache_fetch(one.client(), 7, room.data(), &bytes, kPatienceMs) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "value_bytes = 2: must be at least 3");
}

}  // namespace
}  // namespace hc::test
