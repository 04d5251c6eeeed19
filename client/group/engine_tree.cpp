// SPDX-License-Identifier: Apache-2.0
// engine_tree: calls into the engine, and the leases that it holds.
#include "client/group/engine_tree.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"

namespace hc {

namespace {

hicache_anchor c_anchor(AnchorId anchor) { return {anchor.node, anchor.use}; }

// Hashes lie one behind the other, as the C interface wants them.
static_assert(sizeof(PageHash) == 32 && alignof(PageHash) <= 8);
const std::uint8_t* c_hashes(std::span<const PageHash> hashes) {
  return hashes.empty() ? nullptr : hashes.front().bytes.data();
}

}  // namespace

AttachPoint::Anchor EngineTree::look(AnchorId anchor, const PageHash& first) {
  Anchor out;
  PageHash live;
  int has_hash = 0;
  out.is_clean = calls_.look(calls_.context, c_anchor(anchor), first.bytes.data(),
                             live.bytes.data(), &has_hash) == 1;
  if (has_hash == 1) {
    out.live_hash = live;
  }
  return out;
}

bool EngineTree::make_room(const OwnerCounts& pages) {
  if (quota_.fits(pages)) {
    return true;
  }
  std::vector<std::uint32_t> missing(pages.size());
  for (std::size_t owner = 0; owner < pages.size(); ++owner) {
    const std::uint32_t free = quota_.pages_max() - quota_.used()[owner];
    missing[owner] = pages[owner] - std::min(pages[owner], free);
  }
  calls_.make_room(calls_.context, missing.data(), missing.size());
  return quota_.fits(pages);
}

bool EngineTree::insert(AnchorId anchor, const PageRun& pages, L2Grant grant) {
  if (calls_.insert(calls_.context, c_anchor(anchor), c_hashes(pages.hashes), pages.owners.data(),
                    pages.hashes.size(), grant.lease) != 1) {
    return false;
  }
  grants_.emplace(grant.lease, std::move(grant.pages));
  return true;
}

bool EngineTree::adopt_stored(const PageRun& path, std::size_t first, L2Grant grant) {
  if (calls_.adopt_stored(calls_.context, c_hashes(path.hashes), path.owners.data(),
                          path.hashes.size(), first, grant.lease) != 1) {
    return false;
  }
  grants_.emplace(grant.lease, std::move(grant.pages));
  return true;
}

bool EngineTree::end_lease(LeaseHandle lease) {
  const auto found = grants_.find(lease);
  if (found == grants_.end()) {
    return false;
  }
  quota_.give_back(found->second);
  grants_.erase(found);
  released_.push_back(lease);
  return true;
}

void EngineTree::drop_l2() {
  calls_.drop_l2(calls_.context);
  clear();
}

// The order is nobody's: these leases are only given back.
void EngineTree::clear() {
  for (auto& [lease, pages] : std::exchange(grants_, {})) {
    quota_.give_back(pages);
    released_.push_back(lease);
  }
}

void EngineTree::take_released(std::vector<LeaseHandle>& out) {
  out.insert(out.end(), released_.begin(), released_.end());
  released_.clear();
}

}  // namespace hc
