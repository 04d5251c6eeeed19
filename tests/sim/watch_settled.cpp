// SPDX-License-Identifier: Apache-2.0
// watch_settled: what durable means: the index says so on the disk, the bytes are there, and nobody
// who asked was told otherwise. Also what is kept in reserve and never given twice.
#include <algorithm>

#include "tests/sim/watch.h"

namespace hc::sim {

namespace {

// As many as the engine looks at before it takes a slot of the reserve.
constexpr int kEvictLooksMax = 64;

}  // namespace

// Of a page that was there at the last look, and is.
void Watch::check_settled(PageId id) {
  Catalog& catalog = *world_.core().catalog;
  const Page& page = catalog.page(id);
  const SeenPage& seen = pages_[id.value];
  if (!page.in_use || page.doomed || !was_serving_) {
    return;
  }
  const bool same = seen.linked && page.hash == seen.hash && page.space == seen.space;
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const SeenPart& was = parts_[catalog.ref(id, at).value];
    const PartRef ref = catalog.ref(id, at);
    const Part& now = catalog.part(ref);
    const bool durable_then =
        same && was.l3 == L3State::durable && was.generation == now.generation;
    if (now.l3 == L3State::durable && !durable_then) {
      check_became_durable(id, at);
    }
    const bool was_read = same && was.reading && now.l2 == L2State::resident;
    if (was_read && was.generation == now.generation) {
      check_header(id, at);
    }
    // An eviction would have taken the frame as well.
    const bool lost = same && was.unsettled != 0 && now.barrier == was.unsettled &&
                      !catalog.unsettled().contains(ref.value) &&
                      !catalog.held_back().contains(ref.value) && now.l3 == L3State::absent &&
                      now.l2 == L2State::resident;
    if (lost) {
      world_.losses.push_back(was.unsettled);
      world_.trace.add("lost", ref.value, was.unsettled, static_cast<std::uint64_t>(was.l3));
    }
  }
}

// A committed row names exactly this slot and generation, and no byte of it waits for a flush.
void Watch::check_became_durable(PageId id, std::uint32_t at) {
  Core& core = world_.core();
  const Page& page = core.catalog->page(id);
  const Part& part = core.catalog->part(core.catalog->ref(id, at));
  const PartSpec& spec = core.family_of(id).parts[at];
  const IndexRow* row = world_.index.row(page.space, page.hash);
  const bool named =
      row != nullptr &&
      std::any_of(row->parts.begin(), row->parts.end(), [&](const IndexRowPart& entry) {
        return entry.kind == spec.kind && entry.shard == spec.shard &&
               entry.volume == core.slab_of(core.catalog->ref(id, at)).volume() &&
               entry.slot == part.slot.value && entry.generation == part.generation.value;
      });
  world_.laws.expect(named, 2, "a part is durable that no committed row names");
  const Slab& slab = core.spaces->slabs().slab(part.slab);
  const std::uint64_t offset = slab.slot_offset(part.slot);
  const std::uint64_t bytes = slab.header().slot_bytes;
  const SimFile* file = world_.disk.file(slab.file());
  const bool excused = world_.disk.damaged(slab.file(), offset, bytes);
  // What a flush had dropped before the kill may be found by its header; its sum tells when read.
  const bool all_there = never_acknowledged(part.generation) ||
                         !file->flush_lost(offset / kBlockBytes, bytes / kBlockBytes);
  world_.laws.expect(excused || (world_.disk.synced(slab.file(), offset, bytes) && all_there), 2,
                     "a part is durable whose bytes were not flushed");
}

// Not within a life and not in a later one: a header of an earlier use could pass for the new one.
void Watch::check_generations() {
  SlabSet& slabs = world_.core().spaces->slabs();
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    const Slab& slab = slabs.slab(SlabId{id});
    for (std::uint32_t slot = 0; slot < slab.slot_count(); ++slot) {
      if (slab.state(SlotId{slot}) == SlotState::writing) {
        const std::uint32_t generation = slab.generation(SlotId{slot}).value;
        world_.laws.expect(generation > generation_floor_, 3, "a generation is given twice");
        generation_highest_ = std::max(generation_highest_, generation);
      }
    }
  }
}

bool Watch::was_taken_from(SlabId id) {
  const Slab& slab = world_.core().spaces->slabs().slab(id);
  for (std::uint32_t slot = 0; slot < slab.slot_count(); ++slot) {
    const SlotState state = slab.state(SlotId{slot});
    const bool live = state >= SlotState::writing && state <= SlotState::committed;
    if (live && slab.generation(SlotId{slot}) != slots_[id.value][slot].generation) {
      return true;
    }
  }
  return false;
}

// Judged at the moment it is decided: a moment later the page may be settled, used or gone.
void Watch::sparing(PageId id, SlabId slab) {
  const Core& core = world_.core();
  LruList& order = world_.core().slot_order.order(slab);
  for (std::uint32_t slot = order.oldest(); slot != kNone32; slot = order.newer_than(slot)) {
    const PartRef owner = core.slot_order.owner(slab, slot);
    const Page& page = core.catalog->page(core.catalog->page_of(owner));
    if (core.catalog->page_of(owner) == id) {
      world_.laws.expect(world_.core().catalog->unsettled().contains(owner.value) &&
                             page.holds == 0 && core.spaces->slabs().slab(slab).free_count() > 0,
                         3, "a page is spared that nobody waits for");
      break;
    }
    world_.laws.expect(page.busy > 0 || page.holds > 0, 3, "a page is spared before an older one");
  }
  spared_.resize(std::max<std::size_t>(spared_.size(), slab.value + std::size_t{1}));
  spared_[slab.value] = true;
}

// A slot of the reserve was taken, and no old page of its slab could have been evicted instead.
void Watch::check_reserve() {
  Core& core = world_.core();
  // The reads of a scan behind a lazy load keep pages busy that nobody uses. A rebuild adopts what
  // it finds, the blobs of evicted pages as well; the next writes make room again.
  const bool rebuilt = core.counters.slots_adopted != adopted_;
  adopted_ = core.counters.slots_adopted;
  const bool failing = rebuilt || world_.engine->index_failed() ||
                       world_.engine->scanning_behind() ||
                       commits_failed(core.counters) != commit_failures_;
  for (std::uint16_t id = 0; id < core.slot_order.slab_count() && id < slots_.size(); ++id) {
    const Slab& slab = core.spaces->slabs().slab(SlabId{id});
    const std::uint32_t usable = slab.usable_count();
    // A slab that still gets steps, or may take them from another family, has other ways.
    const bool whole = slab.slots_present() == slab.slots_max() &&
                       core.spaces->family_count() == 1;
    if (failing || !whole || usable == 0 || usable != usable_[id]) {
      continue;
    }
    const std::uint32_t live_max = usable - std::min(
        core.family_of(SlabId{id}).shares[slab.volume()].reserve_slots, usable - 1);
    if (slab.live_count() <= live_max || !was_taken_from(SlabId{id}) ||
        (id < spared_.size() && spared_[id])) {
      continue;
    }
    LruList& order = core.slot_order.order(SlabId{id});
    std::uint32_t slot = order.oldest();
    for (int looks = 0; looks < kEvictLooksMax && slot != kNone32; ++looks) {
      const PageId page = core.catalog->page_of(core.slot_order.owner(SlabId{id}, slot));
      const Page& now = core.catalog->page(page);
      const SeenPage& before = pages_[page.value];
      // Nobody has used it in between either: that would show in its clock.
      const bool idle = before.linked && before.hash == now.hash && before.idle &&
                        before.last_access == now.last_access && now.holds == 0 && now.busy == 0;
      const bool stood = slots_[id][slot].generation == slab.generation(SlotId{slot}) &&
                         slots_[id][slot].state >= SlotState::written;
      const std::uint32_t owner = core.slot_order.owner(SlabId{id}, slot).value;
      // Somebody waits for it, or did when the slot was taken.
      const bool waits =
          core.catalog->unsettled().contains(owner) || parts_[owner].unsettled != 0;
      if (waits) {
        break;
      }
      if (idle && stood) {
        world_.trace.add("reserve", id, slot, slab.live_count(), live_max);
      }
      world_.laws.expect(!idle || !stood, 3,
                         "a slot of the reserve is taken although a page could be evicted");
      slot = order.newer_than(slot);
    }
  }
  spared_.assign(spared_.size(), false);
}

void Watch::walk_limbo() {
  if (!world_.has_catalog() || world_.engine->index_failed()) {
    return;
  }
  SlabSet& slabs = world_.core().spaces->slabs();
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    world_.laws.expect(slabs.slab(SlabId{id}).limbo_count() == 0, 5,
                       "a slot waits at rest for a commit that nobody asks for");
  }
}

// Under write_back memory drops nothing that the disk has not got: it was forgotten, or the page
// left both tiers, or the disk did not take it.
void Watch::check_lost_dirty(PageId id, std::uint32_t part, bool page_gone) {
  const Counters& counters = world_.core().counters;
  const SeenPage& seen = pages_[id.value];
  const std::uint32_t version = world_.version_of(seen.space);
  const std::uint32_t page = world_.scenario.universe.find(seen.hash);
  const bool evicted = page_gone && was_evicted(seen);
  const bool failed = counters.spill_failures != spill_failures_ ||
                      commits_failed(counters) != commit_failures_;
  if (world_.scenario.options.spill.policy == SpillPolicy::write_back && !evicted && !failed &&
      world_.model.at(version, page).gone <= sequence_) {
    world_.trace.add("dirty part lost", version, page, part);
    world_.laws.broken(2, "a dirty part is lost without a reason");
  }
}

// After a lazy load: the parts whose headers nobody has read yet.
void Watch::remember_unproved() {
  unproved_.clear();
  if (!world_.has_catalog() || !world_.scenario.options.load_lazily) {
    return;
  }
  const Catalog& catalog = *world_.core().catalog;
  for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
    for (std::uint32_t at = 0; at < catalog.parts_per_page(PageId{id}); ++at) {
      const Part& part = catalog.part(catalog.ref(PageId{id}, at));
      if (catalog.page(PageId{id}).in_use && part.l3 == L3State::durable) {
        unproved_.insert({id, at, part.generation.value});
      }
    }
  }
}

}  // namespace hc::sim
