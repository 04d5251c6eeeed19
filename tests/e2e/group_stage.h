// SPDX-License-Identifier: Apache-2.0
// group_stage: three ranks as threads with clients of their own, each with the same script.
//
// Owner thread: the test's main thread, which owns the daemon.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/group_rank.h"
#include "support/catch.h"

namespace hc::test {

inline constexpr std::uint16_t kGroupRanks = 3;
inline constexpr std::uint32_t kPromptPages = 8;
inline constexpr std::uint32_t kGroupQuota = 2 * kPromptPages;  // two of the prompts

inline DaemonOptions roomy() {
  DaemonOptions options;
  options.l2_bytes = 24U << 20;
  return options;
}

inline RankOptions options_of(const DaemonProcess& daemon, std::uint16_t rank) {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.group = "group";
  options.rank = rank;
  options.world = kGroupRanks;
  options.quota_pages = kGroupQuota;
  return options;
}

inline Keys prompt(std::uint64_t number) { return {number * 100, kPromptPages, 0}; }

// What one rank of a test does; "" when all was as it should be. Ranks are threads with clients of
// their own.
using Script = std::function<std::string(GroupRank&, std::uint16_t)>;

struct Staging {
  std::uint32_t quota_pages = kGroupQuota;
  std::uint32_t rows = 64;
  std::function<void(hicache_group_options&)> change = [](hicache_group_options&) {};
  std::function<void()> meanwhile = [] {};  // on this thread, which owns the daemon
};

inline void run_ranks(const DaemonProcess& daemon, const Script& script,
                      const Staging& staging = {}) {
  std::array<std::string, kGroupRanks> said;
  std::vector<std::thread> threads;
  for (std::uint16_t rank = 0; rank < kGroupRanks; ++rank) {
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
inline std::string store_and_reload(GroupRank& at, std::uint64_t first) {
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

}  // namespace hc::test
