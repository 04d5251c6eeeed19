// SPDX-License-Identifier: Apache-2.0
// spiller_room: where a part goes, and how its slab gets room: steps, or pages that are evicted.
#include <algorithm>

#include "daemon/engine/spiller.h"
#include "daemon/engine/works.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// Pages at the old end that are in use right now are passed over; more than this many for one
// eviction and the spill takes a reserve slot instead.
constexpr int kEvictLooksMax = 64;
// What a volume may have to write more than the least busy one, and still be chosen.
constexpr std::uint64_t kPendingLeadBytes = 32ULL << 20;

}  // namespace

// A slab with all the steps that the budget grants its family keeps the whole reserve; one with
// fewer keeps its part of it.
Spiller::Room Spiller::room_of(SlabId id) const {
  const Slab& slab = works_.core.spaces->slabs().slab(id);
  const VolumeShare& share = works_.core.family_of(id).shares[slab.volume()];
  const std::uint32_t usable = slab.usable_count() + works_.steps.slots_to_come(id);
  if (usable == 0) {
    return {};
  }
  const std::uint64_t whole = std::max(slab.slots_max(), 1U);
  const std::uint64_t here = std::min<std::uint64_t>(whole, usable + slab.quarantined_count());
  const std::uint64_t wanted = HC_MUTANT(reserve_ignored) ? 0 : share.reserve_slots;
  const std::uint64_t part = (wanted * here + whole - 1) / whole;
  // A slab of an earlier configuration, or of a failing device, may be smaller than the reserve.
  const auto reserve = static_cast<std::uint32_t>(std::min<std::uint64_t>(part, usable - 1));
  return {usable - reserve, reserve};
}

bool Spiller::takes_parts(SlabId id) const {
  const Slab& slab = works_.core.spaces->slabs().slab(id);
  if (works_.core.io.refuses(IoKind::write_blob, slab.volume())) {
    return false;
  }
  const bool gets_none = slab.usable_count() == 0 && works_.steps.is_disk_full(id);
  return slab.free_count() > 0 || !(gets_none || works_.steps.is_stalled(id));
}

// A volume that has failed, or has no slot and gets none, gets nothing while others take it.
// Volumes that have far more to write than another one are passed over: a fast device gets more.
// Of the rest, the one with the largest part of its room free; when all are full, the one whose
// oldest page is oldest, so that they evict as one.
SlabId Spiller::choose_slab(PartRef ref) {
  Core& core = works_.core;
  const Family& family = core.family_of(ref);
  const std::uint32_t part = core.catalog->part_of(ref);
  std::uint64_t least_pending = UINT64_MAX;
  pending_bytes_.resize(family.shares.size());
  const auto is_used = [&](std::uint16_t volume) {
    return family.slab(part, volume) && family.shares[volume].pages > 0;
  };
  std::uint32_t alive = 0;
  for (std::uint16_t volume = 0; volume < family.shares.size(); ++volume) {
    alive += is_used(volume) && takes_parts(*family.slab(part, volume)) ? 1U : 0U;
  }
  const auto is_open = [&](std::uint16_t volume) {
    return is_used(volume) && (alive == 0 || takes_parts(*family.slab(part, volume)));
  };
  for (std::uint16_t volume = 0; volume < family.shares.size(); ++volume) {
    if (is_open(volume)) {
      least_pending = std::min(least_pending, pending_bytes_[volume]);
    }
  }
  SlabId chosen = kNoSlab;
  double chosen_room = -1;
  std::uint64_t chosen_age = UINT64_MAX;
  for (std::uint16_t volume = 0; volume < family.shares.size(); ++volume) {
    const auto& slab = family.slab(part, volume);
    if (!is_open(volume) || pending_bytes_[volume] > least_pending + kPendingLeadBytes) {
      continue;
    }
    const double live_max = room_of(*slab).live_max;
    const double live = core.spaces->slabs().slab(*slab).live_count() +
                        static_cast<double>(lane(*slab).queue.size());
    const double room = live < live_max ? (live_max - live) / live_max : 0;
    const std::uint32_t oldest = core.slot_order.order(*slab).oldest();
    const std::uint64_t age =
        oldest == kNone32
            ? 0
            : core.catalog->page(core.catalog->page_of(core.slot_order.owner(*slab, oldest)))
                  .last_access;
    if (room > chosen_room || (room == 0 && chosen_room == 0 && age < chosen_age)) {
      chosen = *slab;
      chosen_room = room;
      chosen_age = age;
    }
  }
  return chosen;
}

bool Spiller::is_unsettled(SlabId slab, std::uint32_t slot) const {
  const Core& core = works_.core;
  return core.catalog->unsettled().contains(core.slot_order.owner(slab, slot).value);
}

// Asks for steps ahead of need; then evicts until the slab has a place for one more live page, or
// nothing can be evicted, or an older step of another family gives way.
StepMover::Steal Spiller::make_room(SlabId slab_id, const Room& room) {
  Core& core = works_.core;
  Slab& slab = core.spaces->slabs().slab(slab_id);
  if (slab.free_count() <= slab.header().slots_per_step / 2) {
    works_.steps.grow(slab_id);
  }
  if (room.live_max == 0) {
    return works_.steps.steal(slab_id, std::nullopt);
  }
  LruList& order = core.slot_order.order(slab_id);
  std::uint32_t slot = order.oldest();
  for (int looks = 0; looks < kEvictLooksMax && slab.live_count() >= room.live_max; ++looks) {
    if (slot == kNone32) {
      break;
    }
    std::uint32_t next = order.newer_than(slot);
    const PageId page = core.catalog->page_of(core.slot_order.owner(slab_id, slot));
    if (core.catalog->page(page).holds > 0) {
      // An engine uses it: it is not old. Its clock says so too, or the orders would disagree.
      works_.pages.touch(page);
      works_.commit.mark_dirty(page);
    } else if (slab.free_count() > 0 && is_unsettled(slab_id, slot)) {
      if (core.evictions != nullptr) {
        core.evictions->sparing(page, slab_id);
      }
      return StepMover::Steal::none;  // somebody waits for it, and there is another slot
    } else if (core.catalog->page(page).busy == 0) {
      const auto steal = works_.steps.steal(slab_id, core.catalog->page(page).last_access);
      if (steal == StepMover::Steal::coming) {
        return steal;
      }
      evict(page, slab_id, EvictionCause::slot);
      next = order.oldest();  // who was told of it may have left older pages that were passed over
      looks = 0;              // and each eviction has its own
    }
    slot = next;
  }
  // Whatever it has is in use, and so as new as can be: the store would fail for want of a slot.
  const bool stuck = slab.free_count() == 0 && slab.limbo_count() == 0 &&
                     slab.live_count() >= room.live_max;
  return stuck ? works_.steps.steal(slab_id, core.catalog->clock()) : StepMover::Steal::none;
}

bool Spiller::evict_oldest(const Family& family) {
  Core& core = works_.core;
  LruList* fullest = nullptr;
  SlabId slab{};
  for (const auto& id : family.slabs) {
    if (!id) {
      continue;
    }
    LruList& order = core.slot_order.order(*id);
    if (!order.empty() && (fullest == nullptr || order.size() > fullest->size())) {
      fullest = &order;
      slab = *id;
    }
  }
  std::uint32_t slot = fullest == nullptr ? kNone32 : fullest->oldest();
  for (int looks = 0; looks < kEvictLooksMax && slot != kNone32; ++looks) {
    const PageId page = core.catalog->page_of(core.slot_order.owner(slab, slot));
    if (core.catalog->page(page).holds == 0 && core.catalog->page(page).busy == 0) {
      evict(page, slab, EvictionCause::record);
      return true;
    }
    slot = fullest->newer_than(slot);
  }
  return false;
}

}  // namespace hc
