// SPDX-License-Identifier: Apache-2.0
// slot_order: per slab, the slots that hold a stored part in order of last access, and whose they
// are. The order of garbage collection.
//
// Owner: the reactor thread.
// Invariant: a slot stands in the order exactly while its part is written or durable.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/pool/lru_list.h"

namespace hc {

class SlotOrder {
 public:
  // Makes room for a slab; ids come in order. Known slabs are left as they are.
  void add_slab(SlabId slab, std::uint32_t slot_count) {
    HC_CHECK(slab.value <= slabs_.size());
    if (slab.value == slabs_.size()) {
      slabs_.push_back({LruList(slot_count), std::vector<PartRef>(slot_count)});
    }
  }
  void clear() { slabs_.clear(); }
  static constexpr int kLooksMax = 64;

  LruList& order(SlabId slab) { return slabs_[slab.value].order; }
  PartRef owner(SlabId slab, std::uint32_t slot) const { return slabs_[slab.value].owners[slot]; }
  std::uint16_t slab_count() const { return static_cast<std::uint16_t>(slabs_.size()); }

  // Puts the slot at the place of its page's last access; nearly always close to the front. After a
  // bounded look it goes where it stands: a little too new is better than a long stop.
  void insert(const Catalog& catalog, SlabId slab, PartRef ref) {
    PerSlab& at = slabs_[slab.value];
    const std::uint32_t slot = catalog.part(ref).slot.value;
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
    insert_older_than(slab, ref, slot, newer);
  }

  // Right before `newer` (kNone32: as the newest one).
  void insert_older_than(SlabId slab, PartRef ref, std::uint32_t slot, std::uint32_t newer) {
    slabs_[slab.value].owners[slot] = ref;
    slabs_[slab.value].order.insert_older_than(slot, newer);
  }

 private:
  struct PerSlab {
    LruList order;
    std::vector<PartRef> owners;
  };
  std::vector<PerSlab> slabs_;
};

}  // namespace hc
