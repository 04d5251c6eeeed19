// SPDX-License-Identifier: Apache-2.0
// quota_ranks: two ranks of one group with a guaranteed quota. They decide like the client's tree
// (client/reload): what is leased or asked for counts, the oldest is released until more fits, and
// both ranks get the same orders in the same sequence, each at its own pace.
//
//   law 4  what they ask for within their quota is never answered busy or no_space, and gets its
//          room in a time that does not depend on what others ask for
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tests/sim/clients.h"

namespace hc::sim {

inline constexpr std::uint32_t kQuotaRanks = 2;

class QuotaRanks {
 public:
  QuotaRanks(World& world, Clients& clients, std::uint64_t seed);

  // Of a seed with quotas: what its limits must be at least.
  static void widen(Scenario& scenario);
  void act();          // after every act of the driver
  void daemon_died();

 private:
  enum class StepState : std::uint8_t { asked, held, failed };
  struct Step {
    std::uint32_t number = 0;
    Clients::Draft draft;
    std::vector<std::uint32_t> charged;  // pages by owner
    std::array<StepState, kQuotaRanks> at{};
    std::array<std::uint64_t, kQuotaRanks> leases{};
    bool settled = false;                // both ranks have it
  };
  struct Order {
    bool releases = false;
    std::uint32_t step = 0;
    std::uint64_t lease = 0;             // to be released
  };
  struct Rank {
    std::deque<Order> orders;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> open;  // serial, step
  };

  std::uint32_t session_of(std::uint32_t rank, bool previous = false) const;
  bool is_open() const;
  bool attach();
  void attach_rank(std::uint32_t rank, std::uint32_t pages, bool& all);
  void end_group();
  void decide();
  bool draw_step(Step& step);
  bool make_room(const std::vector<std::uint32_t>& wanted);
  bool fits(const std::vector<std::uint32_t>& wanted) const;
  void give_up(const Step& step);
  void follow(std::uint32_t rank);
  void settle();
  void on_end(const SimOp& op, const CompletionEntry& entry);
  Step* find(std::uint32_t number);

  World& world_;
  Clients& clients_;
  Prng prng_;
  std::uint32_t life_ = 0;               // of the group; its sessions alternate
  std::uint32_t pages_ = 0;              // of the quota, for each owner
  std::uint32_t version_ = 0;
  std::uint32_t next_step_ = 1;
  std::vector<std::uint32_t> used_;      // by owner
  std::deque<Step> steps_;               // oldest first
  std::array<Rank, kQuotaRanks> ranks_;
};

}  // namespace hc::sim
