// SPDX-License-Identifier: Apache-2.0
// attach_point: the seam between the reload controller and the tree that its pages go into.
//
// Owner thread: the controller's. Everything here is called at rank-uniform moments with
// rank-uniform arguments, but for the lease handles, which are each rank's own; an implementation
// whose answers depend on anything local breaks the group (its fingerprint shows it).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/reload/page_quota.h"
#include "proto/ids.h"

namespace hc {

// The end of a node: where a suffix would be attached. Named with its use, so that a node that has
// gone is not taken for its successor.
struct AnchorId {
  std::uint32_t node = 0;
  std::uint32_t use = 0;
  friend bool operator==(const AnchorId&, const AnchorId&) = default;
};

// A run of consecutive pages, each hash chained on the one before it.
struct PageRun {
  std::span<const PageHash> hashes;
  std::span<const std::uint16_t> owners;  // of each page; all 0 without owned kinds
};

// The daemon's lease on pages in L2, as the client library names it.
using LeaseHandle = std::uint64_t;
inline constexpr LeaseHandle kNoLeaseHandle = 0;

// What an L2 node stands for: a lease and the pages that it is charged with.
struct L2Grant {
  LeaseHandle lease = kNoLeaseHandle;
  OwnerCounts pages;
};

class AttachPoint {
 public:
  virtual ~AttachPoint() = default;

  // Whether a suffix that starts with `first` can be attached here now: the anchor is there and has
  // no such child. `live_hash`: the chain's value at the anchor; none at a root without a seed.
  struct Anchor {
    bool is_clean = false;
    std::optional<PageHash> live_hash;
  };
  virtual Anchor look(AnchorId anchor, const PageHash& first) = 0;

  // Evicts L2 nodes, oldest first, until the quota has room for `pages`; nothing when even all that
  // may go would not do.
  virtual bool make_room(const OwnerCounts& pages) = 0;
  // New L2 nodes behind a clean anchor. False: no record is free, and nothing was changed. Until
  // end_tick, make_room leaves them and what is above them: the engine has not heard of them yet.
  virtual bool insert(AnchorId anchor, const PageRun& pages, L2Grant grant) = 0;
  // The engine hears of what was inserted next, and locks what it needs.
  virtual void end_tick() = 0;
  // The pages of `path` from `first` on have been stored on all ranks: those nodes are in L2 too.
  // False: none of them can be any more, and the grant was not taken.
  virtual bool adopt_stored(const PageRun& path, std::size_t first, L2Grant grant) = 0;
  // Everything leaves L2: nodes that are in L1 stay there, the others go.
  virtual void drop_l2() = 0;

  // Leases that have ended since the last call: of this rank, to be released now.
  virtual void take_released(std::vector<LeaseHandle>& out) = 0;
  // Mixes every change of the tree that is not the controller's own doing, in order.
  virtual std::uint64_t fingerprint() const = 0;
  virtual void restart_fingerprint(std::uint64_t epoch) = 0;
};

}  // namespace hc
