// SPDX-License-Identifier: Apache-2.0
// reload_engine: the scheduler loop of one rank of an engine that reloads on a miss.
//
// Owner thread: the rank process's only thread. Invariants: every decision follows from the bus and
// from what the group decided, so that it is the same on all ranks; what only this rank knows
// (bytes, loads that missed, answers) changes counts and memory alone. A row that a store reads is
// kept until the store is settled and has ended here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/rank_pages.h"
#include "client/ctl/reload_client.h"
#include "client/ctl/reload_front.h"
#include "client/ctl/row_pool.h"

namespace hc {

class ReloadEngine {
 public:
  ReloadEngine(const RankSetup& setup, std::uint32_t rank);

  // A code other than HICACHE_OK ends the bench.
  hicache_code open(std::string& why);
  // The whole trace.
  hicache_code run();
  // Forgets every page, so that every lease of this rank ends.
  hicache_code forget();
  // One pass with nothing to do: takes answers, gives back leases.
  void rest();
  hicache_code close() { return client_.close(); }
  int event_fd() const;

 private:
  enum class State : std::uint8_t { fresh, held, ready };
  struct Waiting {
    std::uint64_t request = 0;
    State state = State::fresh;
    bool is_admitted = false;
    bool is_joined = false;           // waits for the reload of another request
    std::uint32_t first = 0;          // held: the first page that is missing
    std::uint32_t bound = 0;          // held: pages that the reload can bring at most
    std::uint32_t brought = 0;        // admitted: pages that the reload brought
    std::uint32_t known = 0;          // pages that are there whatever a reload brings
    std::optional<hicache_anchor> lock;
  };
  struct Match {
    hicache_anchor anchor{};
    std::uint32_t l1 = 0;
    std::uint32_t l2 = 0;
    std::uint32_t pages() const { return l1 + l2; }
  };

  hicache_code pass(const TickInput& input);
  void abort(std::uint64_t request);
  hicache_code step(Waiting& at, bool& is_served);
  hicache_code tick();
  void decide(const hicache_decisions& decisions);
  hicache_code settle(const hicache_decisions& decisions, bool is_certain);
  hicache_code meet_again(hicache_code why);
  void die_if_due() const;
  TickInput front_input();
  void note_end();
  Waiting* find(std::uint64_t request);
  bool has_held() const;
  void note(const ReloadEvent& event) const;
  void refuse(std::uint64_t request);

  // reload_engine_serve.cpp
  hicache_code look(Waiting& at);
  hicache_code offer(Waiting& at, const Match& match);
  std::uint32_t bound_of(const Waiting& at, bool& is_joined) const;
  hicache_code serve(Waiting& at, bool& is_served);
  bool has_room(const Match& match, std::size_t blocks) const;
  hicache_code bring_l2(std::uint64_t request, const Match& match);
  hicache_code make_room_in_l1(std::uint32_t pages);
  hicache_code store(std::uint64_t request, std::uint32_t first);
  void count_served(const Waiting& at, const Match& match);
  hicache_code match(std::uint64_t request, Match& out);
  hicache_code lock(Waiting& at, hicache_anchor anchor);
  void unlock(Waiting& at);
  void list_pages(std::uint64_t request, std::size_t count);

  const RankSetup& setup_;
  const ReloadShare& share_;
  const std::uint32_t rank_;
  ReloadTotals& totals_;
  UniformTotals& uniform_;
  RankTotals& bytes_;
  std::optional<RankRegion> region_;    // outlives the client
  ReloadClient client_;
  const RankPages contents_;
  RowPool rows_;
  ChaosDraws draws_;
  std::optional<ReloadFront> front_;    // of rank 0, once it runs
  std::vector<Waiting> waiting_;        // in order of arrival
  struct Unsettled {
    std::vector<std::uint32_t> rows;
    ReloadEvent event;  // what the model is told when it is settled
  };
  std::map<std::uint64_t, Unsettled> unsettled_;  // by store
  std::uint64_t unsettled_pages_ = 0;
  std::vector<ReloadEvent> offers_;     // of this pass
  std::vector<hicache_page> pages_;
  std::uint64_t tick_ = 0;
  bool is_idle_ = false;                // nothing was served in the last pass
  bool is_apart_ = false;               // goes on without reloads
};

}  // namespace hc
