// SPDX-License-Identifier: Apache-2.0
// slot_order: per slab, the slots that hold a stored part in order of last access and whose they
// are, and the newest access of each step. The order of garbage collection.
//
// Owner: the reactor thread.
// Invariants:
//   - a slot stands in the order exactly while its part is written or durable
//   - the newest access of a step never goes back: an evicted page leaves its mark
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/pool/lru_list.h"
#include "daemon/store/slab.h"

namespace hc {

class SlotOrder {
 public:
  // Makes room for a slab; ids come in order. Known slabs are left as they are.
  void add_slab(SlabId id, const Slab& slab) {
    HC_CHECK(id.value <= slabs_.size());
    if (id.value == slabs_.size()) {
      slabs_.push_back({LruList(slab.slot_count()), std::vector<PartRef>(slab.slot_count()),
                        std::vector<std::uint64_t>(slab.step_count()),
                        slab.header().slots_per_step});
    }
  }
  void clear() { slabs_.clear(); }
  static constexpr int kLooksMax = 256;

  LruList& order(SlabId slab) { return slabs_[slab.value].order; }
  const LruList& order(SlabId slab) const { return slabs_[slab.value].order; }
  PartRef owner(SlabId slab, std::uint32_t slot) const { return slabs_[slab.value].owners[slot]; }
  std::uint16_t slab_count() const { return static_cast<std::uint16_t>(slabs_.size()); }

  std::uint64_t step_newest(SlabId slab, std::uint32_t step) const {
    return slabs_[slab.value].newest[step];
  }
  // A step that was just opened is as new as the page it was opened for.
  void mark_step(SlabId slab, std::uint32_t step, std::uint64_t access) {
    std::uint64_t& newest = slabs_[slab.value].newest[step];
    newest = std::max(newest, access);
  }

  // The slot's page was accessed now.
  void touch(SlabId slab, SlotId slot, std::uint64_t access) {
    slabs_[slab.value].order.move_to_newest(slot.value);
    mark_step(slab, slot.value / slabs_[slab.value].slots_per_step, access);
  }

  // Puts the slot at the place of its page's last access; nearly always close to the front. After a
  // bounded look it goes where it stands: a little too new is better than a long stop.
  void insert(const Catalog& catalog, PartRef ref) {
    const SlabId slab = catalog.part(ref).slab;
    PerSlab& at = slabs_[slab.value];
    const std::uint64_t access = catalog.page(catalog.page_of(ref)).last_access;
    std::uint32_t newer = kNone32;
    std::uint32_t look = at.order.newest();
    for (int looks = 0;
         looks < kLooksMax && look != kNone32 &&
         catalog.page(catalog.page_of(at.owners[look])).last_access > access;
         ++looks) {
      newer = look;
      look = at.order.older_than(look);
    }
    insert_older_than(catalog, ref, newer);
  }

  // Right before `newer` in the order of the part's slab (kNone32: as the newest one).
  void insert_older_than(const Catalog& catalog, PartRef ref, std::uint32_t newer) {
    const SlabId slab = catalog.part(ref).slab;
    PerSlab& at = slabs_[slab.value];
    const std::uint32_t slot = catalog.part(ref).slot.value;
    at.owners[slot] = ref;
    at.order.insert_older_than(slot, newer);
    mark_step(slab, slot / at.slots_per_step, catalog.page(catalog.page_of(ref)).last_access);
  }

 private:
  struct PerSlab {
    LruList order;
    std::vector<PartRef> owners;        // by slot
    std::vector<std::uint64_t> newest;  // by step
    std::uint32_t slots_per_step = 1;
  };
  std::vector<PerSlab> slabs_;
};

}  // namespace hc
