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

// Steps that can't be emptied now (a lease, a write) and are passed over in one look.
constexpr int kVictimLooksMax = 16;
constexpr std::int64_t kLookMs = 100;

}  // namespace

std::uint64_t StepMover::cookie_of(std::uint16_t volume, Job job) {
  return io_cookie(IoOwner::space, std::uint32_t{volume} * kJobs + job);
}

StepMover::Volume& StepMover::volume(std::uint16_t number) {
  if (volumes_.size() <= number) {
    volumes_.resize(number + std::size_t{1});
  }
  return volumes_[number];
}

const StepMover::Volume* StepMover::find(std::uint16_t number) const {
  return number < volumes_.size() ? &volumes_[number] : nullptr;
}

StepMover::Steal StepMover::steal(SlabId id, std::optional<std::uint64_t> oldest) {
  Core& core = works_.core;
  const Slab& slab = core.spaces->slabs().slab(id);
  Volume& at = volume(slab.volume());
  if (core.spaces->family_count() == 1) {
    return Steal::none;
  }
  if (at.reclaim.state != ReclaimState::none) {
    if (at.reclaim.overdue) {
      return Steal::none;
    }
    return at.reclaim.wanted_by == id ? Steal::coming : Steal::later;
  }
  if (is_growing(id)) {
    return Steal::coming;
  }
  const bool ready = !at.grow.overdue && core.now >= at.grow_not_before &&
                     core.now >= at.reclaim_not_before;
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

// After the budget was lowered. It would keep the steps that others of its family need.
bool StepMover::is_above_share(const Slab& slab) { return slab.slots_present() > slab.slots_max(); }

bool StepMover::has_too_much(std::uint16_t number) const {
  const SlabSet& slabs = works_.core.spaces->slabs();
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    const Slab& slab = slabs.slab(SlabId{id});
    if (slab.volume() == number && is_above_share(slab)) {
      return true;
    }
  }
  return slabs.ledger(number).over_budget();
}

StepMover::Victim StepMover::oldest_step(std::uint16_t number, std::optional<SlabId> wanted_by) {
  const Core& core = works_.core;
  const SlabSet& slabs = core.spaces->slabs();
  Victim oldest;
  for (std::uint16_t i = 0; i < slabs.count(); ++i) {
    const SlabId id{i};
    const Slab& slab = slabs.slab(id);
    const bool related = wanted_by && &core.family_of(*wanted_by) == &core.family_of(id);
    const bool spared = related || (!wanted_by && !slabs.ledger(number).over_budget() &&
                                    !is_above_share(slab));
    if (slab.volume() != number || spared || !may_give(id)) {
      continue;
    }
    for (std::uint32_t step = 0; step < slab.step_count(); ++step) {
      // What an index rebuild has not read yet can't be judged.
      if (slab.step_state(step) != StepState::open || slab.step_unscanned(step) > 0) {
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
      ++core.counters.steps_failed;
      return false;
    }
    works_.spiller.evict(page, victim.slab, EvictionCause::step);
  }
  works_.commit.request_soon();
  ++core.moves;
  HC_FAILPOINT(step_emptied);
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
  if (at.reclaim.state == ReclaimState::punched) {
    if (works_.commit.last_success() >= at.reclaim.group) {
      release(at);
    }
    return;
  }
  if (slab.step_in_use(step) > 0) {
    works_.commit.request_soon();
  }
  if (slab.step_in_use(step) > 0 || !core.io.can_start(IoKind::punch, slab.volume()) ||
      core.io.refuses(IoKind::punch, slab.volume())) {
    return;
  }
  at.reclaim.state = ReclaimState::punching;
  core.io.start_space(IoKind::punch,
                      {slab.file(), slab.slot_offset(slab.first_slot(step)), slab.step_bytes(step)},
                      cookie_of(slab.volume(), kReclaim));
  HC_FAILPOINT(step_punch_started);
}

// A power loss may undo a punch that was not flushed, and the space would be taken twice. The flush
// is a commit's: what it says about the slab's other bytes must not get lost.
void StepMover::finish_punch(Volume& at, const IoEvent& event) {
  Core& core = works_.core;
  HC_CHECK(at.reclaim.state == ReclaimState::punching);
  Slab& slab = core.spaces->slabs().slab(at.reclaim.slab);
  if (event.code != Code::ok || HC_FAILPOINT_FAILS(step_punched)) {
    slab.open_step(at.reclaim.step);  // its space is still there: it goes on where it is
    at.reclaim = Reclaim{};
    at.reclaim_not_before = core.now + kStepRetryMs * kNsPerMs;
    ++core.counters.steps_failed;
    log_warn("step.punch_failed",
             {{"volume", std::uint32_t{slab.volume()}},
              {"reason", make_error(event.code, "punching a step", event.sys_errno).message()}});
    return;
  }
  at.reclaim.state = ReclaimState::punched;
  at.reclaim.group = works_.commit.next_group();
  works_.commit.add_flush(at.reclaim.slab);
  works_.commit.request_soon();
}

void StepMover::release(Volume& at) {
  Core& core = works_.core;
  const Reclaim done = std::exchange(at.reclaim, Reclaim{});
  Slab& slab = core.spaces->slabs().slab(done.slab);
  slab.drop_step(done.step);
  core.spaces->slabs().ledger(slab.volume()).release(slab.step_bytes(done.step));
  ++core.counters.steps_moved;
  ++core.moves;
  if (done.wanted_by && core.spaces->slabs().slab(*done.wanted_by).absent_step()) {
    at.wants.insert(at.wants.begin(), *done.wanted_by);
  }
  HC_FAILPOINT(step_given_up);
}

void StepMover::on_event(const IoEvent& event) {
  const std::uint32_t value = io_value(event.cookie);
  Volume& at = volume(static_cast<std::uint16_t>(value / kJobs));
  ++works_.core.moves;
  (value % kJobs == kGrow ? at.grow.overdue : at.reclaim.overdue) = event.overdue;
  if (event.overdue) {
    return;  // the step is where it is until the device has answered; nobody waits for it
  }
  if (value % kJobs == kGrow) {
    finish_grow(at, event);
  } else {
    finish_punch(at, event);
  }
}

void StepMover::turn() {
  const SlabSet& slabs = works_.core.spaces->slabs();
  for (std::uint16_t number = 0; number < slabs.volume_count(); ++number) {
    Volume& at = volume(number);
    const bool going = at.reclaim.state == ReclaimState::emptying ||
                       at.reclaim.state == ReclaimState::punched;
    if (going && !paused_) {
      turn_reclaim(at);
    }
    const bool refuses = works_.core.io.refuses(IoKind::punch, number);
    const bool ready = !paused_ && !refuses && at.reclaim.state == ReclaimState::none &&
                       works_.core.now >= at.reclaim_not_before && !works_.commit.is_failing();
    if (ready && has_too_much(number)) {
      start_reclaim(number, std::nullopt, UINT64_MAX);
    }
    if (!paused_ && !refuses) {
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
    if (at.reclaim.state == ReclaimState::punched) {
      at.reclaim.wanted_by.reset();
      release(at);
    } else if (at.reclaim.state == ReclaimState::emptying) {
      works_.core.spaces->slabs().slab(at.reclaim.slab).open_step(at.reclaim.step);
    }
    at.reclaim = Reclaim{};
    at.wants.clear();
  }
  looks_.clear();
}

}  // namespace hc
