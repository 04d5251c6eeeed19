// SPDX-License-Identifier: Apache-2.0
// rank_pages: the bytes of a rank's pages: what they must be, and whether they are.
//
// Owner thread: the rank's only thread. Invariant: every byte that was found wrong is counted, and
// the place of the first one kept.
#pragma once

#include <cstdint>

#include "client/ctl/bench_plan.h"
#include "client/ctl/rank_board.h"
#include "client/ctl/rank_region.h"

namespace hc {

// The shard that owns a block, for owned kinds.
std::uint16_t owner_of_id(std::uint64_t id, std::uint16_t ranks);

class RankPages {
 public:
  RankPages(const BenchPlan& plan, const Trace& trace, std::uint16_t rank)
      : plan_(plan), trace_(trace), rank_(rank) {}

  // The payloads of a block that are this rank's, written into a row.
  void fill(RankRegion& region, std::uint32_t row, std::uint32_t block) const;
  // Bytes in every payload of a row that no stream would hold there.
  void spoil(RankRegion& region, std::uint32_t row) const;
  // Compares every byte that is this rank's. `request` is for the report.
  void check(const RankRegion& region, std::uint32_t row, std::uint32_t block,
             std::uint64_t request, RankTotals& totals) const;

  std::uint16_t owner_of(std::uint32_t block) const;
  // Whether this rank stores a part of the block, of that kind or of any.
  bool is_mine(std::uint32_t block, std::uint16_t kind) const;
  bool is_mine(std::uint32_t block) const;

 private:
  StreamKey key_of(std::uint32_t block, std::uint16_t kind) const;
  std::uint16_t kind_count() const {
    return static_cast<std::uint16_t>(plan_.space.kinds.size());
  }

  const BenchPlan& plan_;
  const Trace& trace_;
  const std::uint16_t rank_;
};

}  // namespace hc
