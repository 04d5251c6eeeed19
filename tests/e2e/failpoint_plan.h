// SPDX-License-Identifier: Apache-2.0
// failpoint_plan: which failpoint a daemon passes how, which ones there are, and the pages it has.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "e2e/process.h"
#include "e2e/rank.h"
#include "support/catch.h"

namespace hc::test {

// Pages by their numbers; each phase has its own, so that a page is stored once.
inline constexpr Keys kLeased{0, 8, 0};      // under a lease: no eviction takes them
inline constexpr Keys kFreed{50, 4, 16};
inline constexpr Keys kDamaged{60, 1, 24};
inline constexpr Keys kChurn{100, 96, 0};   // more than L3 takes
inline constexpr Keys kAfterClear{300, 6, 0};
inline constexpr Keys kAfterStart{400, 4, 0};
inline constexpr Keys kAtTheEnd{500, 8, 0};
inline constexpr Keys kLeasedOther{600, 2, 0};  // of the other family
inline constexpr Keys kOther{610, 4, 0};
inline constexpr std::uint32_t kBatch = 8;
inline constexpr const char* kOtherWeights = "B";

struct FailpointPlan {
  std::string name;
  std::uint32_t pass = 1;
  std::string action = "kill";
  std::string load_verify = "before";
  std::string text() const { return name + ":" + std::to_string(pass) + "=" + action; }
};

inline std::vector<std::string> failpoints() {
  const Outcome listed = run_program("hicached_hooks", {}, {"HICACHE_HOOKS=list"});
  std::vector<std::string> names;
  for (const std::string& line : lines_of(listed.out)) {
    if (line.rfind("failpoint ", 0) == 0) {
      names.push_back(line.substr(10));
    }
  }
  return names;
}

inline std::string wanted_failpoints() {
  const char* text = std::getenv("HC_E2E_FAILPOINTS");
  return text == nullptr ? "" : text;
}

// `which`: K/N.
inline std::vector<std::string> part_of(const std::vector<std::string>& names,
                                        const std::string& which) {
  const std::size_t slash = which.find('/');
  REQUIRE(slash != std::string::npos);
  const std::size_t first = std::stoul(which.substr(0, slash));
  const std::size_t step = std::stoul(which.substr(slash + 1));
  REQUIRE(first < step);
  std::vector<std::string> part;
  for (std::size_t at = first; at < names.size(); at += step) {
    part.push_back(names[at]);
  }
  return part;
}

// Those that HC_FAILPOINT_FAILS passes, but superblock_written_now: a daemon that can't write its
// superblock does not start, which start_stop_test shows.
inline const std::set<std::string> kCanFail = {
    "slab_header_written", "spill_write_done", "commit_slab_flushed", "index_batch_taken",
    "reload_read_done",    "forget_wiped",     "step_allocated",      "step_punched"};

}  // namespace hc::test
