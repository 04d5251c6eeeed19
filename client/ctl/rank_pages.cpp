// SPDX-License-Identifier: Apache-2.0
// rank_pages: row by row, kind by kind.
#include "client/ctl/rank_pages.h"

namespace hc {

std::uint16_t owner_of_id(std::uint64_t id, std::uint16_t ranks) {
  return static_cast<std::uint16_t>(id % ranks);
}

void RankPages::fill(RankRegion& region, std::uint32_t row, std::uint32_t block) const {
  for (std::uint16_t kind = 0; kind < kind_count(); ++kind) {
    if (is_mine(block, kind)) {
      region.fill(row, key_of(block, kind));
    }
  }
}

void RankPages::spoil(RankRegion& region, std::uint32_t row) const {
  for (std::uint16_t kind = 0; kind < kind_count(); ++kind) {
    region.spoil(row, kind);
  }
}

void RankPages::check(const RankRegion& region, std::uint32_t row, std::uint32_t block,
                      std::uint64_t request, RankTotals& totals) const {
  for (std::uint16_t kind = 0; kind < kind_count(); ++kind) {
    if (!is_mine(block, kind)) {
      continue;
    }
    const StreamKey key = key_of(block, kind);
    const StreamMismatch found = region.compare(row, key);
    totals.checked_bytes += plan_.space.kinds[kind].payload_bytes;
    if (found.wrong_bytes != 0 && totals.wrong_bytes == 0) {
      totals.first_wrong = {key.hash, found.first_offset, request, kind, key.shard};
    }
    totals.wrong_bytes += found.wrong_bytes;
  }
}

StreamKey RankPages::key_of(std::uint32_t block, std::uint16_t kind) const {
  const bool replicated = plan_.space.kinds[kind].placement == Placement::replicated;
  return {trace_.id_of(block), replicated ? kShardReplicated : rank_, kind};
}

std::uint16_t RankPages::owner_of(std::uint32_t block) const {
  return owner_of_id(trace_.id_of(block), plan_.ranks);
}

bool RankPages::is_mine(std::uint32_t block, std::uint16_t kind) const {
  return plan_.space.kinds[kind].placement != Placement::owned || owner_of(block) == rank_;
}

bool RankPages::is_mine(std::uint32_t block) const {
  bool mine = false;
  for (std::uint16_t kind = 0; kind < kind_count(); ++kind) {
    mine = mine || is_mine(block, kind);
  }
  return mine;
}

}  // namespace hc
