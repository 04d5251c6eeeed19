// SPDX-License-Identifier: Apache-2.0
// engine_tree: an engine's own prefix tree, behind the seam that the controller knows.
//
// Owner thread: the engine's scheduler. Invariants: every lease that the engine's tree has taken
// stands in grants_ with the pages that it is charged with, until the engine ends it; ended ones
// are given back to the quota at once.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "client/hicache_group.h"
#include "client/reload/attach_point.h"

namespace hc {

class EngineTree final : public AttachPoint {
 public:
  EngineTree(const hicache_tree& calls, PageQuota& quota) : calls_(calls), quota_(quota) {}

  // The engine's tree has let go of a lease. False: it is none of its.
  bool end_lease(LeaseHandle lease);
  // What the ranks compare when they meet.
  std::int64_t l1_digest() const { return calls_.l1_digest(calls_.context) & kDigestMask; }
  // The engine has been told to empty its tree; what is left of leases goes too.
  void clear();
  std::uint32_t grant_count() const { return static_cast<std::uint32_t>(grants_.size()); }

  Anchor look(AnchorId anchor, const PageHash& first) override;
  bool make_room(const OwnerCounts& pages) override;
  bool insert(AnchorId anchor, const PageRun& pages, L2Grant grant) override;
  void end_tick() override {}  // hicache_tree::insert says how long
  bool adopt_stored(const PageRun& path, std::size_t first, L2Grant grant) override;
  void drop_l2() override;
  void take_released(std::vector<LeaseHandle>& out) override;
  std::uint64_t fingerprint() const override { return calls_.fingerprint(calls_.context); }
  void restart_fingerprint(std::uint64_t epoch) override {
    calls_.restart_fingerprint(calls_.context, epoch);
  }

 private:
  static constexpr std::int64_t kDigestMask = (std::int64_t{1} << 62) - 1;

  hicache_tree calls_;
  PageQuota& quota_;
  std::unordered_map<LeaseHandle, OwnerCounts> grants_;
  std::vector<LeaseHandle> released_;
};

}  // namespace hc
