// SPDX-License-Identifier: Apache-2.0
// group_test: ranks of one engine over a real daemon: what they agree on, and what the death of one
// of them, or of the daemon, does to it.
#include <sys/eventfd.h>

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
#include "e2e/group_rank.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

constexpr std::uint16_t kRanks = 3;
constexpr std::uint32_t kPromptPages = 8;
constexpr std::uint32_t kQuota = 2 * kPromptPages;  // two of the prompts

DaemonOptions roomy() {
  DaemonOptions options;
  options.l2_bytes = 24U << 20;
  return options;
}

RankOptions options_of(const DaemonProcess& daemon, std::uint16_t rank) {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.group = "group";
  options.rank = rank;
  options.world = kRanks;
  options.quota_pages = kQuota;
  return options;
}

Keys prompt(std::uint64_t number) { return {number * 100, kPromptPages, 0}; }

// What one rank of a test does; "" when all was as it should be. Ranks are threads with clients of
// their own.
using Script = std::function<std::string(GroupRank&, std::uint16_t)>;

struct Staging {
  std::uint32_t quota_pages = kQuota;
  std::uint32_t rows = 64;
  std::function<void(hicache_group_options&)> change = [](hicache_group_options&) {};
  std::function<void()> meanwhile = [] {};  // on this thread, which owns the daemon
};

void run_ranks(const DaemonProcess& daemon, const Script& script, const Staging& staging = {}) {
  std::array<std::string, kRanks> said;
  std::vector<std::thread> threads;
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RankOptions options = options_of(daemon, rank);
      options.quota_pages = staging.quota_pages;
      options.rows = staging.rows;
      GroupRank at(options);
      staging.change(at.options());
      said[rank] = at.open() == HICACHE_OK ? script(at, rank)
                                           : std::string("open: ") + hicache_last_error();
    });
  }
  staging.meanwhile();
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& line : said) {
    CHECK(line.empty());
    if (!line.empty()) {
      WARN(line);
    }
  }
}

// Stores four prompts, of which the quota holds two, and asks for the first again.
std::string store_and_reload(GroupRank& at, std::uint64_t first) {
  for (std::uint64_t number = first; number < first + 4; ++number) {
    if (!at.compute(prompt(number))) {
      return "prompt " + std::to_string(number) + " is not durable";
    }
  }
  if (at.match(prompt(first)).l2_pages != 0 || at.match(prompt(first + 3)).l2_pages != 8) {
    return "the quota does not hold the newest prompts";
  }
  if (at.offer(first, prompt(first)) != HICACHE_DECLINE_NONE) {
    return "the request is not held";
  }
  if (!at.decided(first) || at.match(prompt(first)).l2_pages != kPromptPages) {
    return "the request is not admitted";
  }
  return at.wrong_bytes(prompt(first)) == 0 ? "" : "wrong bytes";
}

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

// The engine's own collective, in threads.
struct EngineReduce {
  std::barrier<> gate{kRanks};
  std::mutex mutex;
  std::vector<std::int64_t> least;
  std::array<std::uint64_t, kRanks> calls{};

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
  std::array<std::uint64_t, kRanks> reduces{};
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
  std::array<Gate, kRanks> gates{{{0}, {1}, {2}}};
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
        options.worth_context = &gates[next++ % kRanks];
        options.worth = [](void* context, std::uint64_t, std::uint32_t usable, std::uint32_t) {
          return static_cast<Gate*>(context)->rank == 1 && usable > 0 ? 0 : 1;
        };
      }});
}

TEST_CASE("group: when the daemon comes anew all ranks drop L2 together, and go on") {
  DaemonProcess daemon(roomy());
  daemon.start();
  std::barrier gate(kRanks + 1);
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

// A rank in a process of its own: goes on until it is killed.
Child rank_process(const DaemonProcess& daemon, std::uint16_t rank, int ready_fd) {
  return Child([options = options_of(daemon, rank), ready_fd] {
    GroupRank at(options);
    if (at.open() != HICACHE_OK || !store_and_reload(at, 1).empty() || !at.fill_l1(prompt(90))) {
      return 1;
    }
    ::eventfd_write(ready_fd, 1);
    for (std::uint64_t number = 1000;; ++number) {
      static_cast<void>(at.offer(number, prompt(number)));
      if (at.pass() != HICACHE_OK) {
        return 2;
      }
    }
  });
}

// Ranks 1 and 2 here, rank 0 in the process that is killed; only its death can end their wait.
void expect_news_of_death(DaemonProcess& daemon, const std::function<void()>& before) {
  const UniqueFd ready(::eventfd(0, EFD_CLOEXEC));
  Child first = rank_process(daemon, 0, ready.get());
  std::array<hicache_code, 2> told{};
  std::array<bool, 2> kept{true, true};
  std::array<std::string, 2> said;
  std::barrier stages(3);
  std::vector<std::thread> threads;
  for (std::uint16_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      GroupRank at(options_of(daemon, static_cast<std::uint16_t>(i + 1)));
      if (at.open() != HICACHE_OK || !store_and_reload(at, 1).empty() ||
          !at.fill_l1(prompt(90))) {
        said[i] = "not reloaded";
      }
      stages.arrive_and_wait();
      stages.arrive_and_wait();
      for (std::uint64_t number = 1000; told[i] == HICACHE_OK; ++number) {
        static_cast<void>(at.offer(number, prompt(number)));
        told[i] = at.pass();
      }
      said[i] += at.offer(70, prompt(70)) == HICACHE_DECLINE_APART ? "" : "held without the others";
      stages.arrive_and_wait();
      said[i] += at.join(&kept[i]) == HICACHE_OK ? "" : "not met again";
      said[i] += store_and_reload(at, 21);
    });
  }
  std::uint64_t count = 0;
  REQUIRE(readable_within(ready.get(), kPatienceMs));
  ::eventfd_read(ready.get(), &count);
  stages.arrive_and_wait();
  before();
  stages.arrive_and_wait();
  first.kill_now();
  stages.arrive_and_wait();
  GroupRank anew(options_of(daemon, 0));
  CHECK(anew.open() == HICACHE_OK);
  CHECK(store_and_reload(anew, 21) == "");
  for (std::thread& thread : threads) {
    thread.join();
  }
  INFO(daemon.log());
  CHECK(told == std::array<hicache_code, 2>{HICACHE_DISCONNECTED, HICACHE_DISCONNECTED});
  CHECK(kept == std::array<bool, 2>{false, false});  // the one that came anew has nothing in L1
  CHECK(said == std::array<std::string, 2>{});
}

TEST_CASE("group: a killed rank is noticed, the others compute, and meet its successor") {
  DaemonProcess daemon(roomy());
  daemon.start();
  expect_news_of_death(daemon, [] {});
}

TEST_CASE("group: also by a daemon that came after the one that gave them their board") {
  DaemonProcess daemon(roomy());
  daemon.start();
  expect_news_of_death(daemon, [&] {
    daemon.kill_now();
    daemon.start();
    CHECK(eventually([&] {
      const nlohmann::json sessions = daemon.ask("status").at("sessions");
      return sessions.size() == kRanks &&
             std::all_of(sessions.begin(), sessions.end(),
                         [](const nlohmann::json& session) { return session.at("board") == 1; });
    }));
  });
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
