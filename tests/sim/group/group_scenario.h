// SPDX-License-Identifier: Apache-2.0
// group_scenario: what a seed draws before it begins: the group, its limits, the prompts.
#pragma once

#include <cstdint>
#include <vector>

#include "client/reload/controller.h"
#include "client/reload/prefix_tree.h"
#include "tests/sim/prng.h"

namespace hc::sim {

struct Prompt {
  std::vector<std::uint64_t> tokens;
  std::vector<PageHash> hashes;
  std::vector<std::uint16_t> owners;
};

struct GroupScenario {
  std::uint32_t ranks = 2;
  std::uint32_t daemons = 1;            // rank r uses daemon r % daemons
  std::uint32_t owners = 1;             // of pages; the ranks for an owned kind
  std::uint32_t quota_pages = 16;
  std::uint32_t l1_pages = 16;
  std::uint32_t trailing = 0;           // pages that the trailing kind needs; 0: no such kind
  std::uint32_t skew_percent = 20;      // a rank's index differs from the others'
  std::uint32_t fail_percent = 5;       // a reload or a store fails on a rank
  std::uint32_t lost_percent = 3;       // an answer comes only after a cancel
  std::uint32_t delay_ticks = 6;
  std::uint32_t chaos_percent = 3;      // of a tick: a daemon dies, a rank reattaches, and so on
  ControllerOptions controller;
  PrefixTreeOptions tree;
  std::vector<Prompt> prompts;
};

GroupScenario draw_group(Prng& prng);

}  // namespace hc::sim
