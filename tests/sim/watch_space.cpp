// SPDX-License-Identifier: Apache-2.0
// watch_space: whether an eviction was due, and what happens to preallocation steps.
#include <algorithm>

#include "tests/sim/watch.h"

namespace hc::sim {

namespace {

// More new pages than this in one operation are not drawn, so a catalog with more free records was
// not full.
constexpr std::uint32_t kNewPagesMax = 16;

}  // namespace

// A step gives way only if no open step of another family on its volume that might have is older by
// more than what the engine is allowed to overlook, and never under a reader.
void Watch::check_steps() {
  if (!world_.has_catalog()) {
    steps_.clear();
    lowered_ = false;
    return;
  }
  SlabSet& slabs = world_.core().spaces->slabs();
  for (std::uint16_t volume = 0; volume < slabs.volume_count(); ++volume) {
    lowered_ = lowered_ || slabs.ledger(volume).over_budget();
  }
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    const Slab& slab = slabs.slab(SlabId{id});
    lowered_ = lowered_ || slab.slots_present() > slab.slots_max();
  }
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

bool Watch::eviction_was_due(PageId id) {
  Core& core = world_.core();
  if (core.counters.pages_evicted_l3 == evictions_) {
    return false;
  }
  const Catalog& catalog = *core.catalog;
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const SeenPart& was = parts_[catalog.ref(id, at).value];
    const bool had_slot = was.l3 >= L3State::writing;
    if (had_slot) {
      const Slab& slab = core.spaces->slabs().slab(was.slab);
      // Its step gave way: the law of steps is check_steps.
      const bool moved = slab.step_state(slab.step_of(was.slot)) != StepState::open ||
                         core.counters.steps_failed != steps_failed_;
      if (moved || was_due_in(was.slab, id, at)) {
        return true;
      }
    }
    // A rebuild may have found the part since the last look, or a spill have written it, on any
    // volume: also one that was repeated, elsewhere, after a write or flush had failed.
    const Family& family = core.family_of(id);
    for (std::uint16_t volume = 0; volume < family.volume_count(); ++volume) {
      const auto& slab = family.slab(at, volume);
      const bool had = slab && (came_and_went(*slab) ||
                                (core.counters.index_rebuilds > 0 && !had_slot));
      if (had && was_due_in(*slab, id, at)) {
        return true;
      }
    }
  }
  return false;
}

// Whether a slot was written and given up since the last look.
bool Watch::came_and_went(SlabId id) {
  const Slab& slab = world_.core().spaces->slabs().slab(id);
  for (std::uint32_t slot = 0; slot < slab.slot_count(); ++slot) {
    if (slab.state(SlotId{slot}) == SlotState::limbo &&
        slab.generation(SlotId{slot}) != slots_[id.value][slot].generation) {
      return true;
    }
  }
  return false;
}

// The slab, or the catalog, had no room, and no idle page there is older.
bool Watch::was_due_in(SlabId id, PageId page, std::uint32_t at) {
  Core& core = world_.core();
  const Slab& slab = core.spaces->slabs().slab(id);
  const bool catalog_full = pages_free_[core.catalog->page(page).family.value] < kNewPagesMax;
  // With one family the room of a slab is what its steps come to, less what is set aside.
  const bool alone = core.spaces->family_count() == 1;
  const std::uint32_t usable =
      slab.slots_max() - std::min(slab.slots_max(), slab.quarantined_count());
  const std::uint32_t reserve = std::min(core.family_of(id).shares[slab.volume()].reserve_slots,
                                         usable == 0 ? 0 : usable - 1);
  const bool short_of_space = core.counters.steps_failed > 0 || lowered_;
  const bool slab_full = !alone || short_of_space || live_most(id) >= usable - reserve;
  return (slab_full || catalog_full) && was_oldest(id, page, at);
}

// The most live slots that the slab can have had since the last look.
std::uint32_t Watch::live_most(SlabId id) {
  const Slab& slab = world_.core().spaces->slabs().slab(id);
  std::uint32_t most = live_[id.value];
  for (std::uint32_t slot = 0; slot < slab.slot_count(); ++slot) {
    most += slab.generation(SlotId{slot}) != slots_[id.value][slot].generation ? 1U : 0U;
  }
  return most;
}

// No part of it was written again meanwhile, as after a failed flush: the page was busy then.
bool Watch::stood_still(PageId id) {
  Catalog& catalog = *world_.core().catalog;
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const Part& now = catalog.part(catalog.ref(id, at));
    const SeenPart& seen = parts_[catalog.ref(id, at).value];
    if (now.generation != seen.generation) {
      return false;
    }
  }
  return true;
}

// No page that is in this slab now, was there before and was idle, is older.
bool Watch::was_oldest(SlabId slab, PageId id, std::uint32_t part) {
  Catalog& catalog = *world_.core().catalog;
  for (std::uint32_t other = 0; other < pages_.size(); ++other) {
    const Page& now = catalog.page(PageId{other});
    const SeenPage& before = pages_[other];
    const bool same = before.linked && now.in_use && !now.doomed && now.hash == before.hash &&
                      now.space == before.space && now.family == catalog.page(id).family;
    if (!same) {
      continue;
    }
    const Part& there = catalog.part(catalog.ref(PageId{other}, part));
    const SeenPart& seen = parts_[catalog.ref(PageId{other}, part).value];
    const bool stored = seen.l3 >= L3State::written && there.l3 >= L3State::written &&
                        seen.slab == slab && there.slab == slab;
    const bool idle =
        before.idle && now.holds == 0 && now.busy == 0 && stood_still(PageId{other});
    if (other != id.value && stored && idle &&
        now.last_access < pages_[id.value].last_access) {
      return false;
    }
  }
  return true;
}

}  // namespace hc::sim
