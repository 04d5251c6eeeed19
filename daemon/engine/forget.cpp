// SPDX-License-Identifier: Apache-2.0
// forget: the way of a doomed page to the end of its record.
#include "daemon/engine/forget.h"

#include "daemon/engine/works.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::uint8_t kWipeRepeatsMax = 16;

}  // namespace

// Whoever waits for this part to become written or durable is told that it will not.
void Forget::stop_spill(PartRef ref) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  // A part that a store is filling for the first time settles when its copy ends.
  const bool store_fills =
      part.l2 == L2State::filling && !part.reading && part.l3 == L3State::absent;
  if (core.catalog->unsettled().contains(ref.value) && !store_fills) {
    core.catalog->unsettled().remove(ref.value);
  }
  if (part.l3 == L3State::queued || part.l3 == L3State::writing || part.l3 == L3State::written) {
    works_.events->part_spill_failed(ref, Code::retry);
  }
}

void Forget::doom(PageId id, Doom how, FreeToken token) {
  Core& core = works_.core;
  Page& page = core.catalog->page(id);
  HC_CHECK(page.in_use && !page.doomed);
  HC_CHECK(how != Doom::none);
  ++core.counters.pages_freed;
  if (how == Doom::free_object) {
    core.notes->forget(page.space, page.hash);  // older blobs of it may stand in free slots
  }
  works_.spiller.note_doom();
  works_.pages.busy(id);  // the events below must not settle the page under us
  works_.pages.unlink(id);
  page.doom = how;
  page.free_token = token;
  if (page.dirty) {
    // A slot that was dropped from this page may be in limbo already: its row goes with that
    // group, not with hand_on, which may be a while.
    works_.commit.add_erase(page.space, page.hash);
  }
  for (std::uint32_t at = 0; at < core.catalog->parts_per_page(id); ++at) {
    const PartRef ref = core.catalog->ref(id, at);
    Part& part = core.catalog->part(ref);
    part.repeats = 0;
    works_.admission.let_go(ref);
    if (part.l3 >= L3State::written) {
      core.slot_order.order(part.slab).remove(part.slot.value);
    }
    stop_spill(ref);
  }
  HC_FAILPOINT(forget_doomed);
  works_.pages.drop_busy(id);
  settle(id);
}

void Forget::settle(PageId id) {
  Core& core = works_.core;
  Page& page = core.catalog->page(id);
  if (!page.in_use || !page.doomed || page.busy > 0 || page.zeroes_left > 0) {
    return;
  }
  if (page.holds == 0) {
    for (std::uint32_t at = 0; at < core.catalog->parts_per_page(id); ++at) {
      const PartRef ref = core.catalog->ref(id, at);
      if (core.catalog->part(ref).l2 == L2State::resident) {
        works_.pages.drop_frame(ref);
      }
    }
  }
  if (!page.slots_gone) {
    if (page.doom == Doom::free_object && needs_wipe(id)) {
      if (!wipe(id)) {
        wipes_.push_back(id);
        works_.pages.busy(id);
      }
      return;
    }
    hand_on(id);
  }
  if (page.holds == 0 && !core.catalog->has_any_part(id)) {
    core.catalog->destroy(id);
  }
}

bool Forget::needs_wipe(PageId id) const {
  const Catalog& catalog = *works_.core.catalog;
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const Part& part = catalog.part(catalog.ref(id, at));
    if (part.l3 >= L3State::written && !part.wiped) {
      return true;
    }
  }
  return false;
}

// A volume that fails is waited for, as is a full queue.
bool Forget::can_zero(PartRef ref) const {
  const std::uint16_t volume = works_.core.volume_of_part(ref);
  return !works_.core.io.refuses(IoKind::zero_header, volume) &&
         works_.core.io.can_start(IoKind::zero_header, volume);
}

bool Forget::waits_for_disk(PageId id) const {
  const Catalog& catalog = *works_.core.catalog;
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const PartRef ref = catalog.ref(id, at);
    if (catalog.part(ref).l3 >= L3State::written && !catalog.part(ref).wiped) {
      return !can_zero(ref);  // the first one that wipe() comes to
    }
  }
  return false;
}

// Starts to zero every header block of the page; false when the disk takes none now.
bool Forget::wipe(PageId id) {
  Core& core = works_.core;
  Page& page = core.catalog->page(id);
  for (std::uint32_t at = 0; at < core.catalog->parts_per_page(id); ++at) {
    const PartRef ref = core.catalog->ref(id, at);
    const Part& part = core.catalog->part(ref);
    if (part.l3 < L3State::written || part.wiped) {
      continue;
    }
    if (!can_zero(ref)) {
      return page.zeroes_left > 0;  // on_zero comes back for the rest
    }
    const Slab& slab = core.slab_of(ref);
    core.io.start_zero_header(slab.file(), slab.slot_offset(part.slot),
                              io_cookie(IoOwner::zero, ref.value));
    ++page.zeroes_left;
    ++wiping_;
    HC_FAILPOINT(forget_wipe_started);
  }
  return true;
}

// The slot stays the page's until its row is erased with it: hand_on. A wipe that the device failed
// leaves a header that no row names; its slot is not used again.
void Forget::on_zero(const IoEvent& event) {
  Core& core = works_.core;
  const PartRef ref{io_value(event.cookie)};
  if (event.overdue) {
    return;  // the slot stays the page's until the device has answered
  }
  const PageId id = core.catalog->page_of(ref);
  Page& page = core.catalog->page(id);
  Part& part = core.catalog->part(ref);
  HC_CHECK(page.doomed && page.zeroes_left > 0);
  HC_CHECK(part.l3 >= L3State::written);
  --page.zeroes_left;
  --wiping_;
  Slab& slab = core.slab_of(ref);
  if (event.code == Code::ok && !HC_FAILPOINT_FAILS(forget_wiped)) {
    part.wiped = true;
  } else if (event.not_tried || event.volume_fault) {
    // The volume fails: settle wipes it again, when it is well.
  } else if (event.code == Code::io_error && !event.device_failed() &&
             part.repeats < kWipeRepeatsMax) {
    ++part.repeats;  // the kernel could not take it: settle wipes it again
  } else {
    slab.mark_quarantined(part.slot);
    ++core.counters.slots_quarantined;
    drop_slot(part);
  }
  settle(id);
}

void Forget::drop_slot(Part& part) {
  works_.commit.count_written(part.l3 == L3State::written ? -1 : 0);
  part.l3 = L3State::absent;
  part.slot = kNoSlot;
  part.slab = kNoSlab;
  part.generation = kNoGeneration;
  part.wiped = false;
}

// Row and slots go with one group. Apart, a slot could be handed out while a row still names it.
void Forget::hand_on(PageId id) {
  Core& core = works_.core;
  Page& page = core.catalog->page(id);
  page.slots_gone = true;
  if (page.doom == Doom::store_clear) {
    strip_slots(id);
    return;
  }
  for (std::uint32_t at = 0; at < core.catalog->parts_per_page(id); ++at) {
    Part& part = core.catalog->part(core.catalog->ref(id, at));
    if (part.l3 < L3State::written) {
      continue;
    }
    const SlabId slab_id = part.slab;
    core.spaces->slabs().slab(slab_id).mark_limbo(part.slot);
    works_.commit.add_limbo({slab_id, part.slot});
    if (part.wiped) {
      works_.commit.add_flush(slab_id);
    }
    drop_slot(part);
  }
  works_.commit.add_erase(page.space, page.hash, page.free_token);
  works_.commit.request_soon();
  HC_FAILPOINT(forget_handed_on);
}

void Forget::strip_slots(PageId id) {
  Core& core = works_.core;
  for (std::uint32_t at = 0; at < core.catalog->parts_per_page(id); ++at) {
    Part& part = core.catalog->part(core.catalog->ref(id, at));
    if (part.l3 >= L3State::written) {
      drop_slot(part);
    }
  }
}

void Forget::turn() {
  for (std::size_t left = wipes_.size(); left > 0; --left) {  // what has no room is queued again
    const PageId id = wipes_.front();
    wipes_.pop_front();
    if (waits_for_disk(id)) {
      wipes_.push_back(id);  // nothing has moved
      continue;
    }
    works_.pages.drop_busy(id);
    settle(id);
  }
}

}  // namespace hc
