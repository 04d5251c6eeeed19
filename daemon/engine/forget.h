// SPDX-License-Identifier: Apache-2.0
// forget: pages that must not come back: free_object, clear of a space, clear of the store.
//
// A forgotten page can't be found from the moment it is doomed. What it still holds goes in order:
// frames when nobody leases or copies them; slots when no I/O is in flight on them, wiped first if
// it was free_object; the row with the next group commit, after which the waiter is told.
//
// Owner: the reactor thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/store/io_queue.h"

namespace hc {

struct Works;

class Forget {
 public:
  explicit Forget(Works& works) : works_(works) {}

  // Dooms a linked page. `token` is told once, when the page can't come back.
  void doom(PageId page, Doom how, FreeToken token);
  // Moves a doomed page on as far as it can go now; a page that is not doomed is left alone.
  void settle(PageId page);
  void on_zero(const IoEvent& event);
  void turn();  // wipes that waited for the io queue
  bool idle() const { return wipes_.empty() && wiping_ == 0; }

  // Clear of the store: takes the slots of doomed pages out of their records. The slabs are reset
  // by the caller.
  void strip_slots(PageId page);

 private:
  bool needs_wipe(PageId page) const;
  bool can_zero(PartRef ref) const;
  bool waits_for_disk(PageId id) const;
  bool wipe(PageId page);
  void hand_on(PageId page);
  void stop_spill(PartRef ref);
  void drop_slot(Part& part);

  Works& works_;
  std::deque<PageId> wipes_;
  std::uint32_t wiping_ = 0;
};

}  // namespace hc
