// SPDX-License-Identifier: Apache-2.0
// page_keeper: what has to follow every change of a page: its status entry, its places in the
// eviction orders, and its end when nothing is left of it.
//
// Owner: the reactor thread.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/engine/core.h"

namespace hc {

struct Works;

class PageKeeper {
 public:
  PageKeeper(Works& works, Core& core) : works_(works), core_(core) {}

  PageId find_or_create(SpaceNo space, const PageHash& hash);
  // One step of the node's logical clock; newest in every order. True when the row should follow.
  bool touch(PageId page);
  // Publishes the page's masks in its space's status table.
  void publish_status(PageId page);
  // Fetches the place of a page that will be published soon.
  void prefetch_status(PageId page) const;
  // Unlinks: not found any more from here on, its status entry gone.
  void unlink(PageId page);
  // Ends a linked page of which no part is left and that nobody uses. True when it is gone.
  bool end_if_empty(PageId page);

  void hold(PageId page);
  // The caller calls Forget::settle of the page afterwards.
  void drop_hold(PageId page);
  void busy(PageId page);
  void drop_busy(PageId page);

  // From here on flushes wait for this part, until it is durable, has failed or is held back.
  void unsettle(PartRef ref);
  // ... also those that are open already.
  void unsettle_first(PartRef ref);
  // Nobody brings the part into memory any more.
  void stop_unsettled(PartRef ref);

  // Frames.
  // Whether L2 has that many frames of each kind at all. Evicts nothing.
  bool can_fit(const Family& family, std::span<const std::uint32_t> frames_by_kind) const;
  // Evicts unheld pages of the family, oldest first, until `count` frames of the kind are free.
  bool ensure_frames(Family& family, std::uint16_t kind, std::uint32_t count);
  // Evicts pages that only L2 has, then from both tiers, until `count` new pages fit into the
  // family's records.
  bool ensure_records(const Family& family, std::uint32_t count);
  // The same from pages that only memory has: nothing leaves the disk.
  bool records_from_memory(const Family& family, std::uint32_t count);
  void evict_l2(PageId page);
  void drop_frame(PartRef ref);  // resident or filling -> absent

 private:
  Works& works_;
  Core& core_;
};

}  // namespace hc
