// SPDX-License-Identifier: Apache-2.0
// walk: law 3 and law 5 over everything the engine has.
#include <algorithm>
#include <map>

#include "shm/status_table_reader.h"
#include "tests/sim/watch.h"

namespace hc::sim {

void Watch::walk(bool at_rest) {
  if (!world_.has_catalog()) {
    return;
  }
  for (std::uint16_t family = 0; family < world_.core().spaces->family_count(); ++family) {
    walk_frames(world_.core().spaces->family(FamilyNo{family}), at_rest);
  }
  walk_slots();
  walk_pages(at_rest);
  walk_status();
  walk_quotas(at_rest);
}

void Watch::walk_frames(Family& family, bool at_rest) {
  Core& core = world_.core();
  Catalog& catalog = *core.catalog;
  std::vector<FramePool>& pools = family.frames;
  for (std::uint16_t kind = 0; kind < pools.size(); ++kind) {
    std::vector<std::uint32_t> owners(pools[kind].frame_count(), 0);
    std::uint32_t owned = 0;
    for (std::uint32_t ref = 0; ref < catalog.parts_max(); ++ref) {
      const Part& part = catalog.part(PartRef{ref});
      if (&core.family_of(PartRef{ref}) != &family ||
          family.kind_of(catalog.part_of(PartRef{ref})) != kind) {
        continue;
      }
      const bool has = part.l2 != L2State::absent;
      world_.laws.expect(has == (part.frame != kNoFrame), 3, "a frame without a state");
      world_.laws.expect(!at_rest || part.l2 != L2State::filling, 5, "a frame is filled at rest");
      if (has) {
        ++owned;
        ++owners[part.frame.value];
        world_.laws.expect(pools[kind].is_published(part.frame) ==
                               (part.l2 == L2State::resident),
                           3, "a resident frame is not published, or a filling one is");
      }
    }
    for (const std::uint32_t op : core.ops.active()) {
      for (const std::uint32_t at : core.ops.op(op).items) {
        const Item& item = core.ops.item(at);
        const bool here = item.abandoned && item.kind == kind &&
                          &core.family_of(item.part) == &family;
        if (here) {  // a copy of an ended store has its own frame
          ++owned;
          ++owners[item.frame.value];
          world_.laws.expect(core.ops.op(op).ending && !pools[kind].is_published(item.frame), 3,
                             "a frame of an ended store is published, or its store goes on");
        }
      }
    }
    const bool once = std::all_of(owners.begin(), owners.end(),
                                  [](std::uint32_t count) { return count <= 1; });
    world_.laws.expect(once, 3, "a frame has two owners");
    world_.laws.expect(owned + pools[kind].free_count() == pools[kind].frame_count(), 3,
                       "a frame is lost");
  }
}

void Watch::walk_slots() {
  Core& core = world_.core();
  Catalog& catalog = *core.catalog;
  std::vector<std::vector<std::uint32_t>> owners(core.spaces->slabs().count());
  for (std::uint16_t id = 0; id < owners.size(); ++id) {
    owners[id].resize(core.spaces->slabs().slab(SlabId{id}).slot_count());
  }
  for (std::uint32_t at = 0; at < catalog.parts_max(); ++at) {
    const PartRef ref{at};
    const Part& part = catalog.part(ref);
    const bool has = part.l3 >= L3State::writing;
    world_.laws.expect(has == (part.slot != kNoSlot), 3, "a slot without a state");
    if (!has) {
      continue;
    }
    const SlabId slab_id = part.slab;
    const Slab& slab = core.spaces->slabs().slab(slab_id);
    world_.laws.expect(slab.header().family == core.family_of(ref).id, 3,
                       "a part lies in the slab of another family");
    const Page& page = catalog.page(catalog.page_of(ref));
    ++owners[slab_id.value][part.slot.value];
    const SlotState wanted = part.l3 == L3State::writing   ? SlotState::writing
                             : part.l3 == L3State::written ? SlotState::written
                                                           : SlotState::committed;
    world_.laws.expect(slab.state(part.slot) == wanted, 3, "slot and part disagree");
    world_.laws.expect(slab.generation(part.slot) == part.generation, 3,
                       "slot and part have different generations");
    const bool listed = core.slot_order.order(slab_id).contains(part.slot.value);
    world_.laws.expect(listed == (part.l3 >= L3State::written && !page.doomed), 3,
                       "a stored part is not in the order of eviction");
  }
  for (std::uint16_t id = 0; id < owners.size(); ++id) {
    walk_slab(SlabId{id}, owners[id]);
  }
}

void Watch::walk_slab(SlabId id, const std::vector<std::uint32_t>& owners) {
  Core& core = world_.core();
  const Catalog& catalog = *core.catalog;
  const Slab& slab = core.spaces->slabs().slab(id);
  std::uint32_t free_there = 0;
  for (std::uint32_t slot = 0; slot < slab.slot_count(); ++slot) {
    const auto state = static_cast<std::size_t>(slab.state(SlotId{slot}));
    const StepState step = slab.step_state(slab.step_of(SlotId{slot}));
    free_there += state == 0 && step == StepState::open ? 1U : 0U;
    const bool idle = slab.state(SlotId{slot}) == SlotState::free ||
                      slab.state(SlotId{slot}) == SlotState::quarantined;
    world_.laws.expect(idle || step != StepState::absent, 3, "a slot in use has no space");
    const bool live = state >= static_cast<std::size_t>(SlotState::writing) &&
                      state <= static_cast<std::size_t>(SlotState::committed);
    world_.laws.expect((live && clearing_) || owners[slot] == (live ? 1U : 0U), 3,
                       "a live slot has no owner or two, or a dead one has an owner");
  }
  world_.laws.expect(free_there == slab.free_count(), 3, "the pool's free slots are not free");
  // The order of eviction is the order of last access.
  LruList& order = core.slot_order.order(id);
  std::uint64_t newer = UINT64_MAX;
  for (std::uint32_t slot = order.newest(); slot != kNone32; slot = order.older_than(slot)) {
    const PageId page = catalog.page_of(core.slot_order.owner(id, slot));
    world_.laws.expect(
        catalog.part(core.slot_order.owner(id, slot)).slot.value == slot, 3,
        "the order of eviction names a slot of nobody");
    // A part that is older than more slots than the engine looks at goes where the look ends.
    const bool exact = slab.slot_count() <= SlotOrder::kLooksMax;
    world_.laws.expect(!exact || catalog.page(page).last_access <= newer, 3,
                       "the order of eviction is not the order of last access");
    newer = catalog.page(page).last_access;
  }
}

namespace {

bool will_change(const Part& part) {
  return part.l2 == L2State::filling || part.l3 == L3State::queued ||
         part.l3 == L3State::writing || part.l3 == L3State::written;
}

}  // namespace

// What is held back is in memory alone, waits for nobody, and only where the policy says so.
void Watch::walk_held_back() {
  Core& core = world_.core();
  Catalog& catalog = *core.catalog;
  const SpillPolicy policy = core.options.spill.policy;
  std::uint64_t bytes = 0;
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint32_t> frames;  // by family, kind
  std::set<std::uint32_t> pages;
  for (std::uint32_t at = 0; at < catalog.parts_max(); ++at) {
    const PartRef ref{at};
    const Part& part = catalog.part(ref);
    if (!catalog.held_back().contains(at)) {
      continue;
    }
    bytes += core.payload_bytes(ref);
    pages.insert(catalog.page_of(ref).value);
    const Family& family = core.family_of(ref);
    ++frames[{family.number.value, family.kind_of(catalog.part_of(ref))}];
    world_.laws.expect(policy != SpillPolicy::write_through && part.l2 == L2State::resident &&
                           part.l3 == L3State::absent && part.first_waiter == kNone32 &&
                           !catalog.unsettled().contains(at) &&
                           !catalog.page(catalog.page_of(ref)).doomed,
                       3, "a part is held back that is not in memory alone");
  }
  world_.laws.expect(bytes == world_.engine->bytes_held_back() &&
                         pages.size() == catalog.pages_held_back(),
                     3, "the count of what is held back is wrong");
  for (const auto& [at, count] : frames) {
    const FramePool& pool = core.spaces->family(FamilyNo{at.first}).frames[at.second];
    world_.laws.expect(policy != SpillPolicy::write_back ||
                           count <= pool.frame_count() * core.options.spill.dirty_percent / 100,
                       3, "more of the memory is dirty than the policy allows");
  }
}

// Whoever waits for a part waits for something that will happen.
void Watch::walk_parts() {
  Catalog& catalog = *world_.core().catalog;
  for (std::uint32_t at = 0; at < catalog.parts_max(); ++at) {
    const Part& part = catalog.part(PartRef{at});
    world_.laws.expect(part.first_waiter == kNone32 || will_change(part), 4,
                       "an operation waits for a part that nothing will change");
  }
  walk_held_back();
  LruList& unsettled = catalog.unsettled();
  for (std::uint32_t at = unsettled.oldest(); at != kNone32; at = unsettled.newer_than(at)) {
    world_.laws.expect(will_change(catalog.part(PartRef{at})), 5,
                       "an unsettled part is not on its way to the disk");
  }
}

// A freed page whose headers are to be wiped on a volume that fails: no stop waits for its return.
bool Watch::waits_for_volume(PageId id) const {
  Core& core = world_.core();
  const Catalog& catalog = *core.catalog;
  const Page& page = catalog.page(id);
  if (!page.in_use || page.doom != Doom::free_object || page.busy != 1) {
    return false;
  }
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const PartRef ref = catalog.ref(id, at);
    const Part& part = catalog.part(ref);
    if (part.l3 >= L3State::written && !part.wiped) {
      return core.io.refuses(IoKind::zero_header, core.volume_of_part(ref));
    }
  }
  return false;
}

void Watch::walk_pages(bool at_rest) {
  Core& core = world_.core();
  Catalog& catalog = *core.catalog;
  std::map<std::uint32_t, std::uint32_t> holds;
  std::uint32_t nodes = 0;
  for (const SessionId session : core.sessions.all()) {
    for (const LeaseId lease : core.leases.leases_of(session)) {
      for (const PageId page : core.leases.pages(lease)) {
        ++holds[page.value];
        ++nodes;
      }
    }
  }
  world_.laws.expect(nodes == core.leases.nodes_used(), 5, "a lease of nobody");
  for (const std::uint32_t op : core.ops.active()) {
    for (const PageId page : core.ops.op(op).held) {
      ++holds[page.value];
    }
    for (const std::uint32_t item : core.ops.op(op).items) {
      if (core.ops.item(item).holds_page) {
        ++holds[catalog.page_of(core.ops.item(item).part).value];
      }
    }
  }
  std::uint32_t in_use = 0;
  for (std::uint16_t family = 0; family < catalog.families(); ++family) {
    in_use += catalog.pages_free(FamilyNo{family});
  }
  for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
    const Page& page = catalog.page(PageId{id});
    in_use += page.in_use ? 1U : 0U;
    const auto held = holds.find(id);
    world_.laws.expect(page.holds == (held == holds.end() ? 0 : held->second), 3,
                       "the holds of a page are not its leases and operations");
    const bool empty = page.in_use && page.holds == 0 && page.busy == 0 &&
                       !catalog.has_any_part(PageId{id});
    world_.laws.expect(!empty, 3, "a page of nothing is kept");
    const bool evictable = page.in_use && !page.doomed && page.holds == 0 && page.busy == 0 &&
                           catalog.has_resident_part(PageId{id});
    world_.laws.expect(catalog.l2_order(page.family).contains(id) == evictable, 3,
                       "the L2 order does not follow the state of a page");
    const bool may_wait = !at_rest || waits_for_volume(PageId{id});
    world_.laws.expect(may_wait || page.busy == 0, 5, "a page is busy at rest");
    world_.laws.expect(may_wait || !page.doomed || page.holds > 0, 5,
                       "a forgotten page is kept at rest");
  }
  world_.laws.expect(in_use == catalog.pages_max(), 3, "a page is lost");
  walk_parts();
  if (at_rest) {
    world_.laws.expect(core.ops.active().empty(), 5, "an operation is open at rest");
    world_.laws.expect(core.ops.items_free() == core.ops.items_max(), 5, "an item is lost");
    world_.laws.expect(catalog.unsettled().empty(), 5, "a part is unsettled at rest");
    const bool kept = core.options.spill.policy == SpillPolicy::write_back;
    world_.laws.expect(!kept || catalog.held_back().empty(), 5, "a stop leaves dirty pages behind");
  }
}

// The status table says of every page what the catalog says.
void Watch::walk_status() {
  Core& core = world_.core();
  Catalog& catalog = *core.catalog;
  for (Space* space : core.spaces->all()) {
    auto fd = space->status->readonly_fd();
    world_.laws.expect(fd.has_value(), 0, "no descriptor of the status table");
    auto reader = StatusTableReader::attach(std::move(*fd), space->status->size_bytes());
    world_.laws.expect(reader.has_value(), 0, "the status table can't be read");
    std::uint64_t linked = 0;
    for (std::uint32_t number = 0; number < world_.scenario.universe.pages(); ++number) {
      const PageHash hash = world_.scenario.universe.hash(number);
      const PageStatus told = reader->lookup(hash).value_or(PageStatus{});
      const PageId page = catalog.find(space->number, hash);
      PageStatus wanted;
      for (std::uint32_t at = 0; page != kNoPage && at < catalog.parts_per_page(page); ++at) {
        const Part& part = catalog.part(catalog.ref(page, at));
        const std::uint64_t bit = std::uint64_t{1} << at;
        wanted.resident |= part.l2 == L2State::resident ? bit : 0;
        wanted.stored |= part.l3 >= L3State::written ? bit : 0;
        wanted.durable |= part.l3 == L3State::durable ? bit : 0;
      }
      linked += page != kNoPage ? 1U : 0U;
      world_.laws.expect(told.resident == wanted.resident && told.stored == wanted.stored &&
                             told.durable == wanted.durable,
                         3, "the status table does not say what is there");
    }
    world_.laws.expect(space->pages == linked, 3, "the count of a space's pages is wrong");
  }
}

}  // namespace hc::sim
