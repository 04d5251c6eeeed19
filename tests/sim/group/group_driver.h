// SPDX-License-Identifier: Apache-2.0
// group_driver: the engine of a simulated group: the same scheduler on every rank, and the chaos
// around it. Checks the laws:
//
//   1  equal ranks decide equally: answers, decisions, digests, trees, whether a tick reduces
//   2  no request is held for ever
//   3  nothing leaks: leases, quota and nodes are back at nothing in the end
//   4  what is admitted can be loaded on every rank
//   5  a request is admitted in the tick of the last landing
//   6  a divergence is seen in the same tick, and only then; afterwards the group works
//   7  a daemon never has to give more than the quota
//   8  what is reloaded is what every rank has found in its index
//   9  what is admitted is still there when the engine hears of it
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tests/sim/group/sim_rank.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/trace.h"

namespace hc::sim {

struct GroupTally {
  std::uint64_t ticks = 0, reduces = 0, requests = 0, held = 0, admitted = 0, pages_admitted = 0;
  std::uint64_t recomputed = 0, stored = 0, divergences = 0, deaths = 0, abandoned = 0;
};

class GroupDriver {
 public:
  GroupDriver(std::uint64_t seed, std::uint32_t ticks, Laws::Handler handler);

  void run();
  Trace& trace() { return trace_; }
  const GroupTally& tally() const { return tally_; }

 private:
  struct Waiting {
    std::uint32_t prompt = 0;
    std::uint32_t pages = 0;  // that were there when it was offered
    std::uint64_t since = 0;  // tick; an offer that came after encode is of the next one
  };
  struct Lock {
    AnchorId anchor;
    std::uint64_t until = 0;
  };

  // Does `fn` on every rank and expects equal answers; the answer of rank 0.
  template <typename Fn>
  auto on_all(const char* what, Fn&& fn) {
    const auto first = fn(*ranks_.front());
    for (std::size_t i = 1; i < ranks_.size(); ++i) {
      laws_.expect(fn(*ranks_[i]) == first, 1, what);
    }
    return first;
  }

  void tick(bool offers);
  void act(bool offers);
  void act_once(bool may_store);
  void churn_index();
  void cause_chaos();
  void plant_divergence();
  void reduce(bool offers);
  void late_facts(bool offers);
  void take_decisions();
  void check_equal(const SimRank& rank) const;
  void check_quota() const;

  PrefixMatch match(std::uint32_t prompt);
  void request(std::uint32_t prompt, bool is_between);
  void compute(std::uint32_t prompt);
  void store(std::uint32_t prompt);
  void load(std::uint32_t prompt);
  void release_one();
  void make_l1_room(std::uint32_t pages);
  void unlock_due();
  void come_to_rest();
  const Prompt& prompt(std::uint32_t number) const { return scenario_.prompts[number]; }

  Prng prng_;
  SimClock clock_;
  mutable Trace trace_;
  mutable Laws laws_;
  GroupScenario scenario_;
  std::uint32_t ticks_;
  std::vector<std::unique_ptr<SimRank>> ranks_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::vector<Lock> locks_;
  std::vector<ReloadOpId> ops_;       // that were started and may still be open
  std::uint64_t now_ms_ = 1000;
  std::uint64_t tick_ = 0;
  std::uint64_t next_request_ = 1;
  bool is_planted_ = false;
  GroupTally tally_;
};

}  // namespace hc::sim
