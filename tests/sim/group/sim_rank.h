// SPDX-License-Identifier: Apache-2.0
// sim_rank: one rank of a simulated group: the real controller and tree, and what its daemon would
// do: an index that differs from the other ranks', reloads and stores that end when they end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/sim/group/group_scenario.h"
#include "tests/sim/prng.h"

namespace hc::sim {

class SimRank {
 public:
  SimRank(const GroupScenario& scenario, std::uint32_t number, Prng prng);

  std::uint32_t number() const { return number_; }
  std::uint32_t daemon() const { return number_ % scenario_.daemons; }

  // What the index of this rank's shard has.
  void put_page(const PageHash& hash, bool trailing);
  void lose_page(const PageHash& hash);
  void clear_index();

  // Ends what is due, in an order of its own.
  void deliver(std::uint64_t tick, Prng& order);
  void answer_candidates();
  // The vector of this tick.
  const AgreementVector& encode(std::uint64_t now_ms);
  void carry_out(const ReloadDecisions& decisions, std::uint64_t tick);
  void begin_store(std::uint64_t store, const PageRun& path, std::uint32_t first,
                   std::uint64_t tick);

  // The daemon dies: what is in flight fails, leases are gone, the index answers nothing.
  void lose_daemon();
  void daemon_returns(bool cold);
  // The session ended and the rank attached again: what was in flight fails, leases stay.
  void reattach();
  bool has_daemon() const { return has_daemon_; }

  bool is_quiet() const { return reloads_.empty() && stores_.empty(); }
  // Whether the reload had landed here when this tick was encoded.
  bool has_landed(ReloadOpId op) const { return landed_.count(op.value) != 0; }
  bool holds(LeaseHandle lease) const { return leases_.count(lease) != 0; }
  // What the daemon has given away: at most the quota, of each owner (R3).
  OwnerCounts frames() const;
  bool could_serve() const { return can_serve_; }  // every reload that was started here
  bool has_leftovers() const { return leftovers_ > 0; }  // of a divergence, not charged any more
  std::size_t lease_count() const { return leases_.size(); }
  // Page `page` of a lease that is held; nullptr where it has none.
  const PageHash* leased_page(LeaseHandle lease, std::uint32_t page) const;
  bool was_lost(LeaseHandle lease) const { return lost_.count(lease) != 0; }

  PageQuota quota;
  PrefixTree tree;
  Controller controller;
  ReloadDecisions decisions;

 private:
  struct Held {
    std::vector<PageHash> hashes;
    OwnerCounts counts;
  };
  struct InFlight {
    Held pages;
    std::uint64_t due = 0;  // tick; never without a cancel when lost
    bool lost = false;
    bool fails = false;
    bool leftover = false;
  };
  InFlight draw(Held pages, std::uint64_t tick);
  void end_reload(std::uint64_t op, const InFlight& reload, bool landed);
  void end_store(std::uint64_t store, const InFlight& at, bool durable);
  void release(LeaseHandle lease);
  void fail_all();
  bool can_serve(std::span<const PageHash> hashes) const;
  std::uint32_t usable(const Candidate& candidate) const;

  const GroupScenario& scenario_;
  std::uint32_t number_;
  Prng prng_;
  bool has_daemon_ = true;
  bool came_anew_ = false;       // and no vector has said so yet
  bool is_told_ = false;         // the vector that is being reduced says so
  struct HashOfHash {
    std::size_t operator()(const PageHash& hash) const { return hash.word(0); }
  };
  std::unordered_set<PageHash, HashOfHash> pages_;
  std::unordered_set<PageHash, HashOfHash> trailing_;
  std::map<std::uint64_t, InFlight> reloads_;
  std::map<std::uint64_t, InFlight> stores_;
  std::map<LeaseHandle, Held> leases_;
  std::unordered_set<LeaseHandle> lost_;
  std::unordered_set<std::uint64_t> landed_;
  LeaseHandle next_lease_ = 1;
  std::uint32_t leftovers_ = 0;
  bool can_serve_ = true;
};

}  // namespace hc::sim
