// SPDX-License-Identifier: Apache-2.0
// step_mover: grants, victims, and the way of a step from one slab to another.
#include "daemon/engine/step_mover.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/works.h"
#include "daemon/log/log.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::int64_t kRetryMs = 1000;
// Steps that can't be emptied now (a lease, a write) and are passed over in one look.
constexpr int kVictimLooksMax = 16;
constexpr std::int64_t kLookMs = 100;

enum Job : std::uint32_t { kGrow, kReclaim, kJobs };

std::uint64_t cookie_of(std::uint16_t volume, Job job) {
  return io_cookie(IoOwner::space, std::uint32_t{volume} * kJobs + job);
}

}  // namespace

StepMover::Volume& StepMover::volume(std::uint16_t number) {
  if (volumes_.size() <= number) {
    volumes_.resize(number + std::size_t{1});
  }
  return volumes_[number];
}

const StepMover::Volume* StepMover::find(std::uint16_t number) const {
  return number < volumes_.size() ? &volumes_[number] : nullptr;
}

bool StepMover::is_growing(SlabId slab) const {
  const Volume* at = find(works_.core.spaces->slabs().slab(slab).volume());
  return at != nullptr && ((at->grow.state != GrowState::none && at->grow.slab == slab) ||
                           std::count(at->wants.begin(), at->wants.end(), slab) > 0);
}

std::uint32_t StepMover::slots_to_come(SlabId id) const {
  const SlabSet& slabs = works_.core.spaces->slabs();
  const Slab& slab = slabs.slab(id);
  const Volume* at = find(slab.volume());
  std::uint32_t slots = 0;
  std::uint64_t free_bytes = slabs.ledger(slab.volume()).free_bytes();
  const bool growing = at != nullptr && at->grow.slab == id &&
                       at->grow.state != GrowState::none &&
                       at->grow.state != GrowState::undoing;
  if (growing) {
    slots += slab.slots_of_step(at->grow.step);
  } else if (!slab.born()) {
    free_bytes -= std::min(free_bytes, slab.header().first_slot_offset);
  }
  if (at != nullptr && works_.core.now < at->grow_not_before) {
    return slots;  // the disk says no, whatever the budget says
  }
  for (std::uint32_t step = 0; step < slab.step_count(); ++step) {
    const bool counted = growing && step == at->grow.step;
    if (slab.step_state(step) != StepState::absent || counted) {
      continue;
    }
    const std::uint32_t after = slab.slots_present() + slots + slab.slots_of_step(step);
    if (slab.step_bytes(step) > free_bytes || after > slab.slots_max()) {
      break;
    }
    free_bytes -= slab.step_bytes(step);
    slots += slab.slots_of_step(step);
  }
  return slots;
}

void StepMover::grow(SlabId id) {
  Core& core = works_.core;
  const Slab& slab = core.spaces->slabs().slab(id);
  Volume& at = volume(slab.volume());
  const auto step = slab.absent_step();
  const StepLedger& ledger = core.spaces->slabs().ledger(slab.volume());
  if (step && !paused_ && core.now >= at.grow_not_before && !is_growing(id) &&
      SlabSet::step_cost(slab, *step) <= ledger.free_bytes()) {
    at.wants.push_back(id);
    ++core.moves;
  }
}

StepMover::Steal StepMover::steal(SlabId id, std::optional<std::uint64_t> oldest) {
  Core& core = works_.core;
  const Slab& slab = core.spaces->slabs().slab(id);
  Volume& at = volume(slab.volume());
  if (core.spaces->family_count() == 1) {
    return Steal::none;
  }
  if (at.reclaim.state != ReclaimState::none) {
    return at.reclaim.wanted_by == id ? Steal::coming : Steal::later;
  }
  if (is_growing(id)) {
    return Steal::coming;
  }
  const bool ready = core.now >= at.grow_not_before && core.now >= at.reclaim_not_before;
  if (!ready || paused_ || !slab.absent_step() || works_.commit.is_failing()) {
    return Steal::none;
  }
  const std::uint64_t margin = slab.header().slots_per_step;
  const std::uint64_t before = oldest ? *oldest - std::min(margin, *oldest) : UINT64_MAX;
  looks_.resize(std::max<std::size_t>(looks_.size(), id.value + std::size_t{1}));
  if (core.now < looks_[id.value].until && before <= looks_[id.value].oldest) {
    return Steal::none;
  }
  return start_reclaim(slab.volume(), id, before) ? Steal::coming : Steal::none;
}

// A step without a page is as old as the slab's oldest page: taking it makes that one go.
std::uint64_t StepMover::age_of(SlabId slab, std::uint32_t step) const {
  const SlotOrder& order = works_.core.slot_order;
  std::uint64_t age = order.step_newest(slab, step);
  const std::uint32_t oldest = order.order(slab).oldest();
  if (oldest != kNone32) {
    const Catalog& catalog = *works_.core.catalog;
    age = std::max(age, catalog.page(catalog.page_of(order.owner(slab, oldest))).last_access);
  }
  return age;
}

bool StepMover::may_give(SlabId id) const {
  const Slab& slab = works_.core.spaces->slabs().slab(id);
  return slab.open_steps() > (works_.core.family_of(id).sessions > 0 ? 1U : 0U);
}

StepMover::Victim StepMover::oldest_step(std::uint16_t number, std::optional<SlabId> wanted_by) {
  const Core& core = works_.core;
  const SlabSet& slabs = core.spaces->slabs();
  Victim oldest;
  for (std::uint16_t i = 0; i < slabs.count(); ++i) {
    const SlabId id{i};
    const Slab& slab = slabs.slab(id);
    const bool related = wanted_by && &core.family_of(*wanted_by) == &core.family_of(id);
    if (slab.volume() != number || related || !may_give(id)) {
      continue;
    }
    for (std::uint32_t step = 0; step < slab.step_count(); ++step) {
      if (slab.step_state(step) != StepState::open) {
        continue;
      }
      const std::uint64_t age = age_of(id, step);
      if (age < oldest.newest) {
        oldest = {id, step, age};
      }
    }
  }
  return oldest;
}

// Every page of it can be evicted now. A page that somebody holds is not old: it is touched, as the
// eviction within a slab does.
bool StepMover::can_empty(const Victim& victim) {
  Core& core = works_.core;
  const Slab& slab = core.spaces->slabs().slab(victim.slab);
  const std::uint32_t first = slab.first_slot(victim.step).value;
  bool can = true;
  for (std::uint32_t slot = first; slot < first + slab.slots_of_step(victim.step); ++slot) {
    const SlotState state = slab.state(SlotId{slot});
    can = can && state != SlotState::writing;
    if (!core.slot_order.order(victim.slab).contains(slot)) {
      can = can && state != SlotState::written && state != SlotState::committed;  // being wiped
      continue;
    }
    const PageId page = core.catalog->page_of(core.slot_order.owner(victim.slab, slot));
    if (core.catalog->page(page).holds > 0) {
      works_.pages.touch(page);
      works_.commit.mark_dirty(page);
      can = false;
    } else if (core.catalog->page(page).busy > 0) {
      can = false;
    }
  }
  return can;
}

// False: what an eviction started has made another page busy, and the step stays.
bool StepMover::empty(const Victim& victim) {
  Core& core = works_.core;
  Slab& slab = core.spaces->slabs().slab(victim.slab);
  slab.close_step(victim.step);
  const std::uint32_t first = slab.first_slot(victim.step).value;
  for (std::uint32_t slot = first; slot < first + slab.slots_of_step(victim.step); ++slot) {
    if (!core.slot_order.order(victim.slab).contains(slot)) {
      continue;
    }
    const PageId page = core.catalog->page_of(core.slot_order.owner(victim.slab, slot));
    if (core.catalog->page(page).holds > 0 || core.catalog->page(page).busy > 0) {
      slab.open_step(victim.step);
      return false;
    }
    works_.spiller.evict(page);
  }
  works_.commit.request_soon();
  ++core.moves;
  return true;
}

bool StepMover::start_reclaim(std::uint16_t number, std::optional<SlabId> wanted_by,
                              std::uint64_t before) {
  Volume& at = volume(number);
  for (int looks = 0; looks < kVictimLooksMax; ++looks) {
    const Victim victim = oldest_step(number, wanted_by);
    if (victim.newest >= before) {
      if (wanted_by) {
        looks_[wanted_by->value] = {victim.newest, works_.core.now + kLookMs * kNsPerMs};
      } else {
        at.reclaim_not_before = works_.core.now + kLookMs * kNsPerMs;
      }
      return false;
    }
    if (can_empty(victim) && empty(victim)) {
      at.reclaim = {ReclaimState::emptying, victim.slab, victim.step, wanted_by};
      return true;
    }
    works_.core.slot_order.mark_step(victim.slab, victim.step, works_.core.catalog->clock());
  }
  at.reclaim_not_before = works_.core.now + kLookMs * kNsPerMs;
  return false;
}

void StepMover::turn_reclaim(Volume& at) {
  Core& core = works_.core;
  Slab& slab = core.spaces->slabs().slab(at.reclaim.slab);
  const std::uint32_t step = at.reclaim.step;
  if (slab.step_in_use(step) > 0) {
    works_.commit.request_soon();
  }
  if (slab.step_in_use(step) > 0 || !core.io.can_start(IoKind::punch)) {
    return;
  }
  at.reclaim.state = ReclaimState::punching;
  core.io.start_space(IoKind::punch,
                      {slab.file(), slab.slot_offset(slab.first_slot(step)), slab.step_bytes(step)},
                      cookie_of(slab.volume(), kReclaim));
}

void StepMover::finish_reclaim(Volume& at, const IoEvent& event) {
  Core& core = works_.core;
  HC_CHECK(at.reclaim.state == ReclaimState::punching);
  const Reclaim done = std::exchange(at.reclaim, Reclaim{});
  Slab& slab = core.spaces->slabs().slab(done.slab);
  if (event.code != Code::ok) {
    slab.open_step(done.step);  // its space is still there: it goes on where it is
    at.reclaim_not_before = core.now + kRetryMs * kNsPerMs;
    ++core.counters.steps_failed;
    log_warn("step.punch_failed",
             {{"volume", std::uint32_t{slab.volume()}},
              {"reason", make_error(event.code, "punching a step", event.sys_errno).message()}});
    return;
  }
  slab.drop_step(done.step);
  core.spaces->slabs().ledger(slab.volume()).release(slab.step_bytes(done.step));
  ++core.counters.steps_moved;
  if (done.wanted_by && core.spaces->slabs().slab(*done.wanted_by).absent_step()) {
    at.wants.insert(at.wants.begin(), *done.wanted_by);
  }
}

void StepMover::start_grow(std::uint16_t number) {
  Core& core = works_.core;
  Volume& at = volume(number);
  StepLedger& ledger = core.spaces->slabs().ledger(number);
  while (!at.wants.empty() && at.grow.state == GrowState::none &&
         core.io.can_start(IoKind::allocate)) {
    const SlabId id = at.wants.front();
    at.wants.erase(at.wants.begin());
    const Slab& slab = core.spaces->slabs().slab(id);
    const auto step = slab.absent_step();
    const std::uint64_t cost = step ? SlabSet::step_cost(slab, *step) : 0;
    if (!step || !ledger.charge(cost)) {
      ++core.moves;  // its spill asks again if it still needs room
      continue;
    }
    HC_CHECK(slab.born() || *step == 0);
    const std::uint64_t offset = slab.born() ? slab.slot_offset(slab.first_slot(*step)) : 0;
    at.grow = {GrowState::allocating, id, *step, offset, cost};
    core.io.start_space(IoKind::allocate, {slab.file(), offset, cost}, cookie_of(number, kGrow));
  }
}

void StepMover::write_header(Volume& at) {
  Core& core = works_.core;
  const Slab& slab = core.spaces->slabs().slab(at.grow.slab);
  if (at.header == nullptr) {
    at.header = std::make_unique<AlignedBuffer>(SlabSet::kHeaderBytes);
  }
  SlabSet::fill_header(slab.header(), at.header->bytes());
  at.grow.state = GrowState::header;
  core.io.start_write_raw({slab.file(), 0, at.header->data(), SlabSet::kHeaderBytes},
                          cookie_of(slab.volume(), kGrow));
}

void StepMover::finish_grow(Volume& at, const IoEvent& event) {
  Core& core = works_.core;
  Slab& slab = core.spaces->slabs().slab(at.grow.slab);
  if (at.grow.state == GrowState::undoing) {
    // A range that can't be punched stays charged: it may have its space.
    core.spaces->slabs().ledger(slab.volume()).release(
        event.code == Code::ok ? at.grow.charged_bytes : 0);
    at.grow = Grow{};
    return;
  }
  const bool is_header = at.grow.state == GrowState::header;
  if (event.code != Code::ok || (is_header && HC_FAILPOINT_FAILS(slab_header_written))) {
    fail_grow(at, event);
    return;
  }
  if (at.grow.state == GrowState::allocating && !slab.born()) {
    write_header(at);
    return;
  }
  if (is_header) {
    at.grow.state = GrowState::flushing;
    core.io.start_sync(slab.file(), cookie_of(slab.volume(), kGrow));
    return;
  }
  slab.set_born();
  slab.open_step(at.grow.step);
  core.slot_order.mark_step(at.grow.slab, at.grow.step, core.catalog->clock());
  at.grow = Grow{};
  at.told_full = false;
}

// A part of the range may have got its space all the same.
void StepMover::fail_grow(Volume& at, const IoEvent& event) {
  Core& core = works_.core;
  const Slab& slab = core.spaces->slabs().slab(at.grow.slab);
  at.grow.state = GrowState::undoing;
  core.io.start_space(IoKind::punch, {slab.file(), at.grow.offset_bytes, at.grow.charged_bytes},
                      cookie_of(slab.volume(), kGrow));
  at.grow_not_before = core.now + kRetryMs * kNsPerMs;
  ++core.counters.steps_failed;
  if (!at.told_full) {  // the first of a row speaks for all
    at.told_full = true;
    log_warn("step.allocate_failed",
             {{"volume", std::uint32_t{slab.volume()}},
              {"reason", make_error(event.code, "allocating a step", event.sys_errno).message()}});
  }
}

void StepMover::on_event(const IoEvent& event) {
  const std::uint32_t value = io_value(event.cookie);
  Volume& at = volume(static_cast<std::uint16_t>(value / kJobs));
  ++works_.core.moves;
  const SlabId slab = value % kJobs == kGrow ? at.grow.slab : at.reclaim.slab;
  works_.core.note_io(works_.core.spaces->slabs().slab(slab), event);
  if (value % kJobs == kGrow) {
    finish_grow(at, event);
  } else {
    finish_reclaim(at, event);
  }
}

void StepMover::turn() {
  const SlabSet& slabs = works_.core.spaces->slabs();
  for (std::uint16_t number = 0; number < slabs.volume_count(); ++number) {
    Volume& at = volume(number);
    if (at.reclaim.state == ReclaimState::emptying && !paused_) {
      turn_reclaim(at);
    }
    const bool lowered = slabs.ledger(number).over_budget() && !paused_ &&
                         at.reclaim.state == ReclaimState::none &&
                         works_.core.now >= at.reclaim_not_before;
    if (lowered && !works_.commit.is_failing()) {
      start_reclaim(number, std::nullopt, UINT64_MAX);
    }
    if (!paused_) {
      start_grow(number);
    }
  }
}

bool StepMover::idle() const {
  return std::all_of(volumes_.begin(), volumes_.end(), [](const Volume& at) {
    return at.grow.state == GrowState::none && at.reclaim.state != ReclaimState::punching;
  });
}

void StepMover::reset() {
  HC_CHECK(idle());
  for (Volume& at : volumes_) {
    if (at.reclaim.state == ReclaimState::emptying) {
      works_.core.spaces->slabs().slab(at.reclaim.slab).open_step(at.reclaim.step);
    }
    at.reclaim = Reclaim{};
    at.wants.clear();
  }
  looks_.clear();
}

}  // namespace hc
