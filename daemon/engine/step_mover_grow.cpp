// SPDX-License-Identifier: Apache-2.0
// step_mover_grow: how a slab gets a step: charged, allocated, with a header if it is the first.
#include <algorithm>

#include "daemon/engine/step_mover.h"
#include "daemon/engine/works.h"
#include "daemon/log/log.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

bool StepMover::is_growing(SlabId slab) const {
  const Volume* at = find(works_.core.spaces->slabs().slab(slab).volume());
  return at != nullptr && !at->grow.overdue &&
         ((at->grow.state != GrowState::none && at->grow.slab == slab) ||
          std::count(at->wants.begin(), at->wants.end(), slab) > 0);
}

bool StepMover::is_stalled(SlabId slab) const {
  const Volume* at = find(works_.core.spaces->slabs().slab(slab).volume());
  return at != nullptr &&
         (at->grow.overdue || (at->refused && works_.core.now < at->grow_not_before));
}

bool StepMover::is_disk_full(SlabId slab) const {
  const Volume* at = find(works_.core.spaces->slabs().slab(slab).volume());
  return at != nullptr && !at->refused && works_.core.now < at->grow_not_before;
}

std::uint32_t StepMover::slots_to_come(SlabId id) const {
  const SlabSet& slabs = works_.core.spaces->slabs();
  const Slab& slab = slabs.slab(id);
  const Volume* at = find(slab.volume());
  std::uint32_t slots = 0;
  std::uint64_t free_bytes = slabs.ledger(slab.volume()).free_bytes();
  const bool growing = at != nullptr && at->grow.slab == id &&
                       at->grow.state != GrowState::none &&
                       at->grow.state != GrowState::undoing &&
                       at->grow.state != GrowState::undone;
  if (growing) {
    slots += slab.slots_of_step(at->grow.step);
  } else if (!slab.born()) {
    free_bytes -= std::min(free_bytes, slab.header().first_slot_offset);
  }
  if (at != nullptr && works_.core.now < at->grow_not_before && !at->refused) {
    return slots;  // the disk is full, whatever the budget says
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
  if (step && !paused_ && !at.grow.overdue && core.now >= at.grow_not_before && !is_growing(id) &&
      SlabSet::step_cost(slab, *step) <= ledger.free_bytes()) {
    at.wants.push_back(id);
    ++core.moves;
  }
}

void StepMover::start_grow(std::uint16_t number) {
  Core& core = works_.core;
  Volume& at = volume(number);
  StepLedger& ledger = core.spaces->slabs().ledger(number);
  while (!at.wants.empty() && at.grow.state == GrowState::none &&
         core.io.can_start(IoKind::allocate, number)) {
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
    HC_FAILPOINT(step_charged);
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
  if (at.grow.state == GrowState::undoing && event.code == Code::ok && !slab.born()) {
    at.grow.state = GrowState::undone;  // nothing else is in the file
    core.io.start_sync(slab.file(), cookie_of(slab.volume(), kGrow));
    return;
  }
  if (at.grow.state == GrowState::undoing || at.grow.state == GrowState::undone) {
    // A range that can't be punched stays charged: it may have its space.
    core.spaces->slabs().ledger(slab.volume()).release(
        event.code == Code::ok ? at.grow.charged_bytes : 0);
    at.grow = Grow{};
    return;
  }
  const bool is_header = at.grow.state == GrowState::header;
  const bool is_space = at.grow.state == GrowState::allocating;
  const bool space_fails = is_space && HC_FAILPOINT_FAILS(step_allocated);
  if (event.code != Code::ok || space_fails ||
      (is_header && HC_FAILPOINT_FAILS(slab_header_written))) {
    fail_grow(at, event);
    return;
  }
  if (is_space && !slab.born()) {
    write_header(at);
    return;
  }
  if (is_header) {
    at.grow.state = GrowState::flushing;
    core.io.start_sync(slab.file(), cookie_of(slab.volume(), kGrow));
    return;
  }
  // A header that did not reach the disk would cost every page of the slab at the next start.
  if (at.grow.state == GrowState::flushing) {
    at.grow.state = GrowState::proving;
    core.io.start_read_header(slab.file(), 0, cookie_of(slab.volume(), kGrow));
    return;
  }
  const bool proved = at.grow.state != GrowState::proving ||
                      std::equal(event.header_block.begin(), event.header_block.end(),
                                 at.header->bytes().begin());
  proved ? open_grown(at) : fail_grow(at, event);
}

void StepMover::open_grown(Volume& at) {
  Core& core = works_.core;
  Slab& slab = core.spaces->slabs().slab(at.grow.slab);
  slab.set_born();
  slab.open_step(at.grow.step);
  core.slot_order.mark_step(at.grow.slab, at.grow.step, core.catalog->clock());
  at.grow = Grow{};
  at.told_full = false;
  HC_FAILPOINT(step_taken);
}

// A part of the range may have got its space all the same.
void StepMover::fail_grow(Volume& at, const IoEvent& event) {
  Core& core = works_.core;
  const Slab& slab = core.spaces->slabs().slab(at.grow.slab);
  if (event.not_tried && at.grow.state == GrowState::allocating) {
    core.spaces->slabs().ledger(slab.volume()).release(at.grow.charged_bytes);
    at.grow = Grow{};  // the volume has failed: it is asked again when it is well
    return;
  }
  at.grow.state = GrowState::undoing;
  core.io.start_space(IoKind::punch, {slab.file(), at.grow.offset_bytes, at.grow.charged_bytes},
                      cookie_of(slab.volume(), kGrow));
  at.grow_not_before = core.now + kStepRetryMs * kNsPerMs;
  at.refused = event.device_failed() || event.volume_fault;
  ++core.counters.steps_failed;
  // What an answer of ok has not brought about failed all the same.
  const Code code = event.code == Code::ok ? Code::io_error : event.code;
  if (!at.told_full) {  // the first of a row speaks for all
    at.told_full = true;
    log_warn("step.allocate_failed",
             {{"volume", std::uint32_t{slab.volume()}},
              {"reason", make_error(code, "allocating a step", event.sys_errno).message()}});
  }
}

}  // namespace hc
