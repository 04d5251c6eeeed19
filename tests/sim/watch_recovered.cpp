// SPDX-License-Identifier: Apache-2.0
// watch_recovered: what was durable before a crash, and what is there after the load.
#include "tests/sim/watch.h"

#include <utility>

#include "proto/store_notes.h"

namespace hc::sim {

void Watch::remember_durable() {
  const std::set<std::uint32_t> before = std::exchange(durable_once_, {});
  remembered_.clear();
  mark_failed_ = world_.engine && world_.core().counters.marks_failed > 0;
  if (!world_.has_catalog()) {
    return;
  }
  Core& core = world_.core();
  Catalog& catalog = *core.catalog;
  for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
    const Page& page = catalog.page(PageId{id});
    if (!page.in_use || page.doomed) {
      continue;
    }
    for (std::uint32_t at = 0; at < catalog.parts_per_page(PageId{id}); ++at) {
      const Part& part = catalog.part(catalog.ref(PageId{id}, at));
      const std::uint32_t generation = part.generation.value;
      const bool unread =
          world_.engine->scanning_behind() && !generation_is_before(run_begins_, generation);
      if (part.l3 != L3State::durable || (unread && !part_stands(PageId{id}, at))) {
        continue;
      }
      if (generation_is_before(run_begins_, generation) || before.count(generation) != 0) {
        durable_once_.insert(generation);
      }
      const Slab& slab = core.spaces->slabs().slab(part.slab);
      const std::uint32_t version = world_.version_of(page.space);
      const std::uint32_t number = world_.scenario.universe.find(page.hash);
      const PageTruth& truth = world_.model.at(version, number);
      remembered_.push_back({version, number, at, part.generation,
                             world_.disk.file(slab.file())->name(), slab.volume(),
                             slab.slot_offset(part.slot),
                             slab.header().slot_bytes, truth.gone > truth.gone_for_good});
    }
  }
}

// The same blob, or one of the same part that a rebuild cut short by the crash had not read yet.
bool Watch::stands_for(const Remembered& was, PartRef ref) {
  const Generation found = world_.core().catalog->part(ref).generation;
  return found == was.generation || (world_.core().counters.index_rebuilds > 0 &&
                                     generation_is_before(was.generation.value, found.value));
}

// An old copy of the index, or a new one in place of a lost one, is told by the commit marks in the
// slabs. The device has lost one of them as well, or refused it (the daemon has warned): two faults
// at once, and what is there passes for the index.
bool Watch::marks_unknown() {
  SlabSet& slabs = world_.core().spaces->slabs();
  bool lost = mark_failed_;
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    lost = lost || world_.disk.damaged(slabs.slab(SlabId{id}).file(), kMarkOffset,
                                       kMarkCopies * std::uint64_t{kBlockBytes});
  }
  return lost && world_.told_by_marks && world_.core().counters.index_rebuilds == 0;
}

// A rebuild has found more pages than there are records, those that were evicted among them: the
// ones that were written last stay, whole.
bool Watch::gave_way(const Remembered& was) {
  const Core& core = world_.core();
  const Catalog& catalog = *core.catalog;
  std::uint32_t newest = was.generation.value;
  for (const Remembered& other : remembered_) {
    if (other.version == was.version && other.page == was.page &&
        generation_is_before(newest, other.generation.value)) {
      newest = other.generation.value;
    }
  }
  if (core.counters.index_rebuilds == 0) {
    return false;
  }
  for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
    const Page& page = catalog.page(PageId{id});
    if (!page.in_use || page.holds > 0 || page.busy > 0) {
      continue;
    }
    bool is_newer = !catalog.has_stored_part(PageId{id});
    for (std::uint32_t at = 0; at < catalog.parts_per_page(PageId{id}); ++at) {
      const Part& part = catalog.part(catalog.ref(PageId{id}, at));
      is_newer = is_newer || (part.l3 >= L3State::written &&
                              generation_is_before(newest, part.generation.value));
    }
    if (!is_newer) {
      return false;
    }
  }
  return core.counters.slots_left_out + core.counters.pages_evicted_l3 > 0;
}

void Watch::check_recovered() {
  for (const Remembered& was : remembered_) {
    const SimFile* file = world_.disk.file_named(was.file, was.volume);
    const bool damaged = file == nullptr || file->damaged(was.offset_bytes / kBlockBytes,
                                                          was.slot_bytes / kBlockBytes);
    const auto space = world_.core().superblock->find_space(
        make_space_id(world_.scenario.with_version(was.version)));
    const PageHash hash = world_.scenario.universe.hash(was.page);
    PageId page = kNoPage;
    if (space && world_.has_catalog()) {
      page = world_.core().catalog->find(*space, hash);
    }
    if (page != kNoPage && stands_for(was, world_.core().catalog->ref(page, was.part))) {
      ++world_.tally.recovered;
    } else if (damaged || was.forget_pending || lowered_ || marks_unknown() ||
               gave_way(was) ||
               (space && world_.index.row_damaged(*space, hash))) {
      ++world_.tally.excused;
    } else {
      world_.laws.broken(2, name_of("a durable part is not there after load: version, page, part",
                                    was.version, was.page, was.part));
    }
  }
  remembered_.clear();
  check_recovered_pages();
}

// After a lazy load a part may be known by its row alone, whose erase a crash prevented. It is a
// miss when it is read, so what counts is its header.
bool Watch::part_stands(PageId id, std::uint32_t at) {
  Core& core = world_.core();
  if (!world_.scenario.options.load_lazily) {
    return true;
  }
  const SeenPage seen{core.catalog->page(id).hash, core.catalog->page(id).space, 0, false, false};
  const Part& part = core.catalog->part(core.catalog->ref(id, at));
  return part.l3 == L3State::durable &&
         header_stands(core.spaces->slabs().slab(part.slab),
                       {part.slot, part.slab, part.l3, part.generation}, seen);
}

bool Watch::any_header_stands(PageId id) {
  if (!world_.scenario.options.load_lazily) {
    return true;
  }
  for (std::uint32_t at = 0; at < world_.core().catalog->parts_per_page(id); ++at) {
    if (part_stands(id, at)) {
      return true;
    }
  }
  return false;
}

// Whatever the disk did: a header of this very page and of another generation is not taken for it.
void Watch::check_header(PageId id, std::uint32_t at) {
  Core& core = world_.core();
  const Page& page = core.catalog->page(id);
  const Part& part = core.catalog->part(core.catalog->ref(id, at));
  if (part.l3 < L3State::written || generation_is_before(run_begins_, part.generation.value)) {
    return;  // nothing there, or written while a rebuild went on: its header was not read
  }
  const Slab& slab = core.spaces->slabs().slab(part.slab);
  BlockBytes block{};
  BlobHeader header{};
  world_.disk.file(slab.file())->get(slab.slot_offset(part.slot) / kBlockBytes, block);
  const BlobVerdict verdict =
      parse_header_block(block, world_.core().superblock->seed_of(page.space), header);
  world_.laws.expect(verdict != BlobVerdict::good || header.page_hash != page.hash ||
                         header.generation == part.generation.value,
                     1, "a slot is taken for a page whose header is of another generation");
}

void Watch::check_recovered_pages() {
  if (!world_.has_catalog()) {
    return;
  }
  Catalog& catalog = *world_.core().catalog;
  for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
    const Page& page = catalog.page(PageId{id});
    if (!page.in_use) {
      continue;
    }
    const std::uint32_t version = world_.version_of(page.space);
    const std::uint32_t number = world_.scenario.universe.find(page.hash);
    if (number == world_.scenario.universe.pages() ||
        (!world_.model.may_come_back(version, number) && any_header_stands(PageId{id}))) {
      world_.laws.broken(2, name_of("a forgotten page came back: version, page", version, number,
                                    id));
    }
    for (std::uint32_t at = 0; at < catalog.parts_per_page(PageId{id}); ++at) {
      if (!world_.scenario.options.load_lazily) {
        check_header(PageId{id}, at);
      }
    }
    if (world_.core().counters.index_rebuilds > 0) {
      continue;  // found in the slots, which don't know of accesses
    }
    const IndexRow* row = world_.index.row(page.space, page.hash);
    world_.laws.expect(row != nullptr && row->last_access == page.last_access, 2,
                       "a recovered page has not the last access of its row");
  }
}

}  // namespace hc::sim
