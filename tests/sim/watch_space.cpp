// SPDX-License-Identifier: Apache-2.0
// watch_space: whether an eviction is due, and what happens to preallocation steps.
#include <algorithm>

#include "tests/sim/watch.h"

namespace hc::sim {

namespace {

// More new pages than this in one operation are not drawn, so a catalog with more free records is
// not full.
constexpr std::uint32_t kNewPagesMax = 16;

}  // namespace

// Never under a reader.
void Watch::check_steps() {
  if (!world_.has_catalog()) {
    steps_.clear();
    lowered_ = false;
    return;
  }
  look_for_lowered();
  SlabSet& slabs = world_.core().spaces->slabs();
  steps_.resize(slabs.count());
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    const Slab& slab = slabs.slab(SlabId{id});
    steps_[id].resize(slab.step_count(), StepState::absent);
    for (std::uint32_t step = 0; step < slab.step_count(); ++step) {
      const StepState state = slab.step_state(step);
      const bool gone = steps_[id][step] != StepState::absent && state == StepState::absent;
      world_.tally.steps_moved += gone ? 1U : 0U;
      steps_[id][step] = state;
      if (state != StepState::absent) {
        continue;
      }
      const std::uint32_t first = slab.first_slot(step).value;
      const std::uint32_t end = first + slab.slots_of_step(step);
      for (std::uint32_t slot = first; slot < end; ++slot) {
        world_.laws.expect(slab.pins(SlotId{slot}) == 0, 3,
                           "a step was given back under a reader");
      }
    }
  }
}

// A start may find more than the budget of this life.
void Watch::look_for_lowered() {
  SlabSet& slabs = world_.core().spaces->slabs();
  for (std::uint16_t volume = 0; volume < slabs.volume_count(); ++volume) {
    lowered_ = lowered_ || slabs.ledger(volume).over_budget();
  }
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    const Slab& slab = slabs.slab(SlabId{id});
    lowered_ = lowered_ || slab.slots_present() > slab.slots_max();
  }
}

// Nothing of the page has changed yet.
void Watch::evicting(PageId id, SlabId slab, EvictionCause cause) {
  Core& core = world_.core();
  const Catalog& catalog = *core.catalog;
  const Page& page = catalog.page(id);
  evicted_.emplace_back(page.space, page.hash);
  look_for_lowered();
  world_.laws.expect(page.in_use && !page.doomed && page.holds == 0 && page.busy == 0, 2,
                     "a page is evicted that is in use");
  if (cause == EvictionCause::slot) {
    check_slot_is_needed(slab);
  } else if (cause == EvictionCause::record) {
    world_.laws.expect(catalog.pages_free(page.family) < kNewPagesMax, 2,
                       "a page is evicted for a record although records are free");
  } else {
    const Slab& at = core.spaces->slabs().slab(slab);
    bool gives_way = false;
    for (std::uint32_t part = 0; part < catalog.parts_per_page(id); ++part) {
      const Part& now = catalog.part(catalog.ref(id, part));
      gives_way = gives_way || (now.l3 >= L3State::written && now.slab == slab &&
                                at.step_state(at.step_of(now.slot)) != StepState::open);
    }
    world_.laws.expect(gives_way, 2, "a page is evicted for a step that it is not in");
    return;  // as old as the whole step
  }
  check_oldest(slab, id);
}

// Slots of the steps that fit whole into the slab's share.
std::uint32_t Watch::whole_steps(const Slab& slab) {
  std::uint32_t slots = slab.slots_present();
  for (std::uint32_t step = 0; step < slab.step_count(); ++step) {
    const std::uint32_t more =
        slab.step_state(step) == StepState::absent ? slab.slots_of_step(step) : 0;
    if (slots + more > slab.slots_max()) {
      break;
    }
    slots += more;
  }
  return slots;
}

// The slab has as many live pages as it may.
void Watch::check_slot_is_needed(SlabId id) {
  Core& core = world_.core();
  const Slab& slab = core.spaces->slabs().slab(id);
  const std::uint32_t reserve = core.family_of(id).shares[slab.volume()].reserve_slots;
  world_.laws.expect(slab.live_count() + reserve >= slab.usable_count(), 2,
                     "a page is evicted from a slab that has free slots");
  // With one family the room of a slab is what all its steps come to, also those it has not got
  // yet, unless the space for them could not be had.
  const bool alone = core.spaces->family_count() == 1;
  if (alone && core.counters.steps_failed == 0 && !lowered_) {
    const std::uint32_t room = whole_steps(slab) - slab.quarantined_count();
    world_.laws.expect(slab.live_count() + reserve >= room, 2,
                       "a page is evicted from a slab that could have grown");
  }
}

// No page with a slot in this slab that could go instead was accessed earlier.
void Watch::check_oldest(SlabId slab, PageId id) {
  Core& core = world_.core();
  const Catalog& catalog = *core.catalog;
  const LruList& order = core.slot_order.order(slab);
  bool is_here = false;
  for (std::uint32_t slot = order.oldest(); slot != kNone32; slot = order.newer_than(slot)) {
    const PageId other = catalog.page_of(core.slot_order.owner(slab, slot));
    const Page& page = catalog.page(other);
    is_here = is_here || other == id;
    if (page.holds == 0 && page.busy == 0 && page.last_access < catalog.page(id).last_access) {
      world_.trace.add("older", slab.value, slot, page.last_access,
                       catalog.page(id).last_access);
      world_.laws.broken(2, "a page is evicted although an older one could go");
    }
  }
  world_.laws.expect(is_here, 2, "a page is evicted that has no slot where room is needed");
}

bool Watch::was_evicted(const SeenPage& seen) const {
  return std::any_of(evicted_.begin(), evicted_.end(), [&](const auto& page) {
    return page.first == seen.space && page.second == seen.hash;
  });
}

}  // namespace hc::sim
