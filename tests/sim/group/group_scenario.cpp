// SPDX-License-Identifier: Apache-2.0
// group_scenario: draws a group and its prompts.
#include "tests/sim/group/group_scenario.h"

#include <algorithm>

namespace hc::sim {

namespace {

constexpr std::uint32_t kPrompts = 24;
constexpr std::uint32_t kPagesMax = 12;

// Prompts share beginnings: a new one goes on from somewhere within an earlier one.
void draw_prompts(Prng& prng, GroupScenario& scenario) {
  const PageHashOptions& hash = scenario.controller.hash;
  for (std::uint32_t number = 0; number < kPrompts; ++number) {
    Prompt prompt;
    if (number > 0 && prng.percent(75)) {
      const Prompt& other = scenario.prompts[prng.below(number)];
      const std::size_t keep = prng.below(other.tokens.size() + 1);
      prompt.tokens.assign(other.tokens.begin(),
                           other.tokens.begin() + static_cast<std::ptrdiff_t>(keep));
    }
    const std::uint64_t wanted =
        prng.between(1, kPagesMax) * hash.page_tokens + (hash.bigram ? 1 : 0);
    while (prompt.tokens.size() < wanted) {
      prompt.tokens.push_back(prng.below(1000));
    }
    HC_CHECK(hash_pages(scenario.tree.seed, std::span<const std::uint64_t>(prompt.tokens), hash,
                        prompt.hashes));
    for (std::size_t page = 0; page < prompt.hashes.size(); ++page) {
      // By content, as a stripe over the position would be.
      prompt.owners.push_back(static_cast<std::uint16_t>(page % scenario.owners));
    }
    scenario.prompts.push_back(std::move(prompt));
  }
}

}  // namespace

GroupScenario draw_group(Prng& prng) {
  GroupScenario out;
  out.ranks = prng.between32(2, 8);
  out.daemons = prng.between32(1, 2);
  out.owners = prng.one_in(3) ? out.ranks : 1;
  out.quota_pages = prng.between32(3, 40) / (out.owners > 1 ? 2 : 1) + 1;
  out.l1_pages = prng.between32(8, 40);
  out.trailing = prng.one_in(3) ? prng.between32(1, 3) : 0;
  out.skew_percent = prng.one_in(4) ? 0 : prng.between32(1, 40);
  out.fail_percent = prng.one_in(3) ? 0 : prng.between32(1, 15);
  out.lost_percent = prng.one_in(3) ? 0 : prng.between32(1, 10);
  out.delay_ticks = prng.between32(0, 12);
  out.chaos_percent = prng.one_in(3) ? 0 : prng.between32(1, 6);
  ControllerOptions& controller = out.controller;
  controller.hash.page_tokens = prng.between32(1, 4);
  controller.hash.bigram = prng.one_in(3);
  controller.trailing_kinds = out.trailing > 0;
  controller.ops_max = prng.between32(1, 8);
  controller.op_pages_max = prng.between32(2, 12);
  controller.inflight_pages_max = prng.between32(12, 48);
  controller.pages_min = std::min(prng.between32(1, 2), controller.op_pages_max);
  controller.waiting_max = prng.one_in(4) ? prng.between32(1, 6) : prng.between32(16, 128);
  controller.stores_max = prng.between32(1, 32);
  controller.ttl_ms = prng.between32(20, 400);
  out.tree.nodes_max = prng.one_in(6) ? prng.between32(4, 12) : 512;
  if (prng.one_in(3)) {
    PageHash seed;
    seed.bytes.fill(static_cast<std::uint8_t>(prng.next()));
    out.tree.seed = seed;
  }
  draw_prompts(prng, out);
  return out;
}

}  // namespace hc::sim
