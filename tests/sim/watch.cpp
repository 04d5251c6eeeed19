// SPDX-License-Identifier: Apache-2.0
// watch: what changed between two looks, and whether it was allowed to.
#include "tests/sim/watch.h"

#include <algorithm>

namespace hc::sim {

void Watch::observe() {
  const bool serving =
      world_.engine != nullptr && world_.engine->state() == EngineState::serving;
  if (serving && !serving_) {
    remember_unproved();
    run_begins_ = world_.core().superblock->newest_generation().value;
    rebuilt_once_ = rebuilt_once_ || world_.core().counters.index_rebuilds > 0;
  }
  was_serving_ = serving && serving_;
  serving_ = serving;
  check_steps();
  check_reads();
  if (!world_.has_catalog()) {
    pages_.clear();
    parts_.clear();
    slots_.clear();
    generation_floor_ = generation_highest_;
  } else {
    Catalog& catalog = *world_.core().catalog;
    if (pages_.size() == catalog.pages_max()) {
      check_slots();
      for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
        if (pages_[id].in_use || catalog.page(PageId{id}).in_use) {
          check_page(PageId{id});
          check_settled(PageId{id});
        }
      }
      check_reserve();
    }
    check_generations();
    take_snapshot();
  }
  sequence_ = world_.model.now();
}

void Watch::take_snapshot() {
  Core& core = world_.core();
  Catalog& catalog = *core.catalog;
  pages_.resize(catalog.pages_max());
  parts_.resize(catalog.parts_max());
  for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
    // Most records are never used: they look as they did.
    if (pages_[id].in_use || catalog.page(PageId{id}).in_use) {
      see_page(PageId{id});
    }
  }
  SlabSet& slabs = core.spaces->slabs();
  slots_.resize(slabs.count());
  usable_.resize(slabs.count());
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    const Slab& slab = slabs.slab(SlabId{id});
    const std::uint32_t slot_count = slab.slot_count();
    slots_[id].resize(slot_count);
    usable_[id] = slab.usable_count();
    for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
      slots_[id][slot] = {slab.state(SlotId{slot}), slab.generation(SlotId{slot})};
    }
  }
  for (const Space* space : core.spaces->all()) {
    (void)world_.version_of(space->number);
  }
  spill_failures_ = core.counters.spill_failures;
  evicted_.clear();
  unreachable_ = core.counters.parts_unreachable;
  commit_failures_ = commits_failed(core.counters);
}

void Watch::see_page(PageId id) {
  Catalog& catalog = *world_.core().catalog;
  const Page& page = catalog.page(id);
  pages_[id.value] = {page.hash,
                      page.space,
                      page.last_access,
                      page.in_use && !page.doomed,
                      page.holds == 0 && page.busy == 0,
                      page.in_use};
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const std::uint32_t ref = catalog.ref(id, at).value;
    const Part& part = catalog.part(PartRef{ref});
    const bool unsettled = catalog.unsettled().contains(ref);
    parts_[ref] = {part.slot,
                   part.slab,
                   part.l3,
                   part.generation,
                   unsettled ? part.barrier : 0,
                   catalog.held_back().contains(ref),
                   part.reading};
  }
}

// Written by an earlier run, and not durable when that was killed: a write that was not finished,
// or a page that was evicted and whose slot was being written again. A rebuild finds its header.
bool Watch::never_acknowledged(Generation generation) const {
  return rebuilt_once_ && !generation_is_before(run_begins_, generation.value) &&
         durable_once_.count(generation.value) == 0;
}

// A slot that was freed since the last look, or freed and handed out again.
void Watch::check_slots() {
  SlabSet& slabs = world_.core().spaces->slabs();
  for (std::uint16_t id = 0; id < slabs.count() && id < slots_.size(); ++id) {
    const Slab& slab = slabs.slab(SlabId{id});
    for (std::uint32_t slot = 0; slot < slab.slot_count(); ++slot) {
      const SlotState state = slab.state(SlotId{slot});
      const bool usable = state == SlotState::free || state == SlotState::writing;
      const bool changed = slab.generation(SlotId{slot}) != slots_[id][slot].generation;
      if (usable && changed && !clearing_ &&
          world_.index.names(slab.header(), slot)) {
        world_.laws.broken(3, name_of("a slot is handed out that a committed row names: kind, "
                                      "shard, slot",
                                      slab.header().kind, slab.header().shard, slot));
      }
    }
  }
}

void Watch::check_page(PageId id) {
  const SeenPage& seen = pages_[id.value];
  if (!seen.linked) {
    return;
  }
  Catalog& catalog = *world_.core().catalog;
  const Page& page = catalog.page(id);
  const bool gone = !page.in_use || page.doomed || page.hash != seen.hash ||
                    page.space != seen.space;
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const SeenPart& part = parts_[catalog.ref(id, at).value];
    const Part& now = catalog.part(catalog.ref(id, at));
    const bool lost = gone || now.l3 < L3State::written || now.slot != part.slot ||
                      now.slab != part.slab;
    if (part.l3 >= L3State::written && lost) {
      check_lost_part(id, at, gone);
    }
    const bool dropped = gone || (now.l2 == L2State::absent && now.l3 < L3State::written);
    if (part.held_back && dropped) {
      check_lost_dirty(id, at, gone);
    }
  }
}

// Whether the header of this part is on the disk, in the slot that it had.
bool Watch::header_stands(const Slab& slab, const SeenPart& was, const SeenPage& seen) {
  BlockBytes block{};
  BlobHeader header{};
  const std::uint64_t offset = slab.slot_offset(was.slot);
  world_.disk.file(slab.file())->get(static_cast<std::size_t>(offset / kBlockBytes), block);
  return parse_header_block(block, world_.core().superblock->seed_of(seen.space), header) ==
             BlobVerdict::good &&
         header.page_hash == seen.hash && header.generation == was.generation.value;
}

// What a law that is broken is looked into with.
void Watch::trace_lost(const SeenPart& was, bool page_gone) {
  const Core& core = world_.core();
  const Slab& slab = core.spaces->slabs().slab(was.slab);
  world_.trace.add("lost", static_cast<std::uint64_t>(was.l3), page_gone ? 1 : 0,
                   evicted_.size(), was.slot.value);
  world_.trace.add("of slab", slab.live_count(), slab.slot_count(), slab.open_steps());
  const StepLedger& ledger = core.spaces->slabs().ledger(slab.volume());
  world_.trace.add("of volume", slab.volume(), ledger.free_bytes(), slab.step_bytes(0),
                   core.counters.steps_failed);
  for (std::uint16_t number = 0; number < core.spaces->slabs().count(); ++number) {
    const Slab& other = core.spaces->slabs().slab(SlabId{number});
    world_.trace.add("beside", other.volume(), other.slots_present(), other.slots_max(),
                     other.live_count());
  }
  for (std::size_t verdict = 0; verdict < kBlobVerdicts; ++verdict) {
    if (core.counters.verify[verdict] != 0) {
      world_.trace.add("failed checks", verdict, core.counters.verify[verdict]);
    }
  }
}

void Watch::check_lost_part(PageId id, std::uint32_t part, bool page_gone) {
  const SeenPage& seen = pages_[id.value];
  Core& core = world_.core();
  const SeenPart& was = parts_[core.catalog->ref(id, part).value];
  const std::uint32_t version = world_.version_of(seen.space);
  const std::uint32_t page = world_.scenario.universe.find(seen.hash);
  if (world_.model.at(version, page).gone > sequence_) {
    return;  // forgotten in this very call
  }
  const Slab& slab = core.spaces->slabs().slab(was.slab);
  const std::uint64_t offset = slab.slot_offset(was.slot);
  const Part& now = core.catalog->part(core.catalog->ref(id, part));
  if (!page_gone && core.counters.index_rebuilds > 0 && now.l3 >= L3State::written &&
      generation_is_before(was.generation.value, now.generation.value)) {
    return;  // a later blob of the same part was found
  }
  if (world_.disk.damaged(slab.file(), offset, slab.header().slot_bytes)) {
    ++world_.tally.excused;
    return;
  }
  if (core.counters.parts_unreachable != unreachable_) {
    ++world_.tally.excused;  // given up by a read while its volume failed
    return;
  }
  if (never_acknowledged(was.generation)) {
    ++world_.tally.excused;
    return;
  }
  if (unproved_.count({id.value, part, was.generation.value}) != 0 &&
      !header_stands(slab, was, seen)) {
    ++world_.tally.excused;  // taken on the word of a row; a forget had wiped the header already
    return;
  }
  const bool flush_failed =
      commits_failed(core.counters) != commit_failures_ ||
      world_.disk.file(slab.file())->flush_lost(offset / kBlockBytes,
                                                slab.header().slot_bytes / kBlockBytes);
  if (was.l3 == L3State::written && flush_failed) {
    return;
  }
  if (was_evicted(seen)) {
    ++world_.tally.evicted;
    return;
  }
  trace_lost(was, page_gone);
  world_.laws.broken(2, name_of("a stored part is lost without a reason: version, page, part",
                                version, page, part));
}

void Watch::check_reads() {
  const std::vector<DiskRead> reads = world_.disk.take_reads();
  if (world_.engine == nullptr || world_.engine->state() != EngineState::loading) {
    return;
  }
  SlabSet& slabs = world_.core().spaces->slabs();
  for (const DiskRead& read : reads) {
    world_.laws.expect(read.size_bytes == kBlockBytes, 3,
                       "cold start reads more than a header block");
    for (std::uint16_t id = 0; id < slabs.count(); ++id) {
      const Slab& slab = slabs.slab(SlabId{id});
      if (slab.file() != read.file) {
        continue;
      }
      const std::uint64_t slot =
          (read.offset_bytes - slab.header().first_slot_offset) / slab.header().slot_bytes;
      world_.laws.expect(world_.index.names(slab.header(), static_cast<std::uint32_t>(slot)), 3,
                         "cold start reads a slot that no row of its shard names");
    }
  }
}

}  // namespace hc::sim
