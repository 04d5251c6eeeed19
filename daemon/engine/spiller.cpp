// SPDX-License-Identifier: Apache-2.0
// spiller: slots, generations, headers and garbage collection.
#include "daemon/engine/spiller.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/engine/works.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// A part whose flush fails is written again that often; each time takes a commit interval.
constexpr std::uint8_t kRespillsMax = 3;

}  // namespace

Spiller::Lane& Spiller::lane(SlabId slab) {
  while (lanes_.size() <= slab.value) {
    lanes_.emplace_back();
  }
  return lanes_[slab.value];
}

void Spiller::enqueue(PartRef ref) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l2 == L2State::resident);
  HC_CHECK(part.l3 == L3State::absent);
  part.slab = choose_slab(ref);
  HC_CHECK(part.slab != kNoSlab);
  part.l3 = L3State::queued;
  const Slab& slab = core.slab_of(ref);
  pending_bytes_[slab.volume()] += slab.header().slot_bytes;
  works_.pages.busy(core.catalog->page_of(ref));
  lane(part.slab).queue.push_back(ref);
  ++queued_;
}

// Parts of doomed pages leave a queue whose front waits: the page can't end while they stand there.
void Spiller::turn() {
  const bool purge = std::exchange(doomed_, false);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    auto& queue = lanes_[i].queue;
    while (!paused_ && !queue.empty() && start_front(queue) == Step::next) {
      queue.pop_front();
      --queued_;
    }
    if (purge && !queue.empty()) {
      purge_doomed(queue);
    }
  }
  tell_overdue();
}

// The device has not answered in time: the part will not become written as far as anybody waits.
// Slot and frame stay the write's until it ends. However it ends, the part is not stored: nothing
// watches over its flush any more.
void Spiller::note_overdue(PartRef ref) {
  Core& core = works_.core;
  ++core.counters.spill_failures;
  overdue_.push_back(ref);
  if (core.catalog->unsettled().contains(ref.value)) {
    core.catalog->unsettled().remove(ref.value);
    core.ledger.lose(core.catalog->part(ref).barrier, Code::io_error);
  }
  tell_overdue();
}

// Also those who came after the notice. What is told never ends one of these writes.
void Spiller::tell_overdue() {
  for (std::size_t i = 0; i < overdue_.size(); ++i) {
    if (works_.core.catalog->part(overdue_[i]).first_waiter != kNone32) {
      works_.events->part_spill_failed(overdue_[i], Code::io_error);
    }
  }
}

// What a failure starts may queue new parts meanwhile.
void Spiller::purge_doomed(std::deque<PartRef>& queue) {
  std::deque<PartRef> all;
  all.swap(queue);
  for (const PartRef ref : all) {
    if (works_.core.catalog->page(works_.core.catalog->page_of(ref)).doomed) {
      --queued_;
      fail(ref, Code::retry);
    } else {
      queue.push_back(ref);
    }
  }
}

// No slot is free now: one comes out of limbo, with a step, or not at all. While commits fail,
// evicting frees nothing, and waiting for limbo would keep the frames of the queue from everybody.
Spiller::Step Spiller::without_slot(PartRef ref, StepMover::Steal steal) {
  const SlabId id = works_.core.catalog->part(ref).slab;
  const Slab& slab = works_.core.spaces->slabs().slab(id);
  const bool commits_fail = works_.commit.is_failing();
  if (works_.steps.is_growing(id) || (steal != StepMover::Steal::none && !commits_fail)) {
    return Step::wait;
  }
  if (works_.steps.is_stalled(id)) {
    fail(ref, Code::io_error);
    return Step::next;
  }
  if (slab.limbo_count() > 0 && !commits_fail) {
    works_.commit.request_soon();  // limbo becomes free with the commit
    return Step::wait;
  }
  if (slab.unscanned_count() > 0 && works_.core.rebuilding) {
    return Step::wait;  // the next ones that turn out to be free
  }
  fail(ref, commits_fail ? works_.commit.failure_code() : Code::no_space);
  return Step::next;
}

// An epoch that only memory knows is given anew after a crash: to the next clear of the space,
// which would then bring back what had been written under it.
bool Spiller::epoch_is_durable(PartRef ref) const {
  const Core& core = works_.core;
  const Page& page = core.catalog->page(core.catalog->page_of(ref));
  return core.spaces->space(page.space).epoch_sequence <= core.superblock->durable_sequence();
}

// Starts the write of the queue's first part, or fails it; wait: nothing can be done now.
Spiller::Step Spiller::start_front(std::deque<PartRef>& queue) {
  Core& core = works_.core;
  const PartRef ref = queue.front();
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l3 == L3State::queued);
  if (core.catalog->page(core.catalog->page_of(ref)).doomed) {
    fail(ref, Code::retry);
    return Step::next;
  }
  const std::uint16_t volume = core.volume_of_part(ref);
  if (core.io.refuses(IoKind::write_blob, volume)) {
    fail(ref, Code::io_error);  // nothing is evicted for it
    return Step::next;
  }
  if (!core.io.can_start(IoKind::write_blob, volume)) {
    return Step::wait;
  }
  if (!epoch_is_durable(ref)) {
    if (!core.superblock->is_stalled()) {
      return Step::wait;
    }
    fail(ref, Code::io_error);
    return Step::next;
  }
  const SlabId slab_id = part.slab;
  Slab& slab = core.spaces->slabs().slab(slab_id);
  const bool commits_fail = works_.commit.is_failing();
  const Room room = room_of(slab_id);
  auto steal = StepMover::Steal::none;
  if (commits_fail) {
    works_.steps.grow(slab_id);  // what is left is what is free
  } else {
    steal = make_room(slab_id, room);
  }
  if (slab.free_count() == 0) {
    return without_slot(ref, steal);
  }
  if (slab.free_count() <= room.reserve / 4) {
    works_.commit.request_soon();
  }
  const auto generation = core.superblock->next_generation();
  if (!generation) {
    if (!commits_fail) {
      return Step::wait;  // a new block of generations is being made durable
    }
    fail(ref, works_.commit.failure_code());
    return Step::next;
  }
  const auto slot = slab.take(*generation);
  HC_CHECK(slot.has_value());
  HC_FAILPOINT(spill_slot_taken);
  write(ref, *slot, *generation);
  HC_FAILPOINT(spill_write_started);
  return Step::next;
}

void Spiller::write(PartRef ref, SlotId slot, Generation generation) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  const Page& page = core.catalog->page(core.catalog->page_of(ref));
  const std::uint32_t at = core.catalog->part_of(ref);
  Slab& slab = core.slab_of(ref);
  part.slot = slot;
  part.generation = generation;
  part.l3 = L3State::writing;
  part.flush_failures = lane(part.slab).flush_failures;
  ++writing_;
  FramePool& frames = core.frames_of(ref);
  const std::uint8_t* frame_header = frames.header(part.frame);
  const BlobPlace place{slab.file(), slab.slot_offset(slot), frames.payload(part.frame),
                        slab.header().slot_bytes - kBlockBytes};
  core.io.start_write(
      place, io_cookie(IoOwner::spill, ref.value), [&](std::span<std::uint8_t> block) {
        std::span<const std::uint8_t> metadata;
        const std::span<const std::uint8_t> kept{frame_header, kBlockBytes};
        HC_CHECK(read_metadata(kept, metadata) == BlobVerdict::good);
        BlobHeader header{};
        header.kind = core.family_of(ref).kind_of(at);
        header.payload_bytes = core.payload_bytes(ref);
        header.page_hash = page.hash;
        header.payload_crc = part.payload_crc;
        header.space_tag = core.spaces->space(page.space).tags[at];
        header.slot = slot.value;
        header.generation = generation.value;
        encode_header_block(block, header, core.superblock->seed_of(page.space), metadata);
      });
}

void Spiller::note_flush(SlabId slab, bool failed) {
  Lane& at = lane(slab);
  at.flush_failures += failed ? 1U : 0U;
  works_.core.counters.flush_failures += failed ? 1U : 0U;
  if (at.legacy == Legacy::unknown) {
    at.legacy = failed ? Legacy::lost : Legacy::flushed;
  }
}

void Spiller::leave_lane(PartRef ref) {
  const Slab& slab = works_.core.slab_of(ref);
  std::uint64_t& pending = pending_bytes_[slab.volume()];
  HC_CHECK(pending >= slab.header().slot_bytes);
  pending -= slab.header().slot_bytes;
}

// The part has left the queue or the disk: whatever waited for its frame may go on.
void Spiller::finish(PartRef ref) {
  const PageId page = works_.core.catalog->page_of(ref);
  works_.pages.drop_busy(page);
  works_.forget.settle(page);
}

void Spiller::fail(PartRef ref, Code code) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  leave_lane(ref);
  part.l3 = L3State::absent;
  part.slot = kNoSlot;
  part.slab = kNoSlab;
  part.generation = kNoGeneration;
  if (core.catalog->unsettled().contains(ref.value)) {
    core.catalog->unsettled().remove(ref.value);
    if (code != Code::retry) {  // retry: forgotten, nobody misses it
      core.ledger.lose(part.barrier, code);
    }
  }
  ++core.counters.spill_failures;
  works_.events->part_spill_failed(ref, code);
  finish(ref);
}

void Spiller::on_write(const IoEvent& event) {
  Core& core = works_.core;
  const PartRef ref{io_value(event.cookie)};
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l3 == L3State::writing);
  HC_CHECK(writing_ > 0);
  if (event.overdue) {
    note_overdue(ref);
    return;
  }
  if (event.was_overdue) {
    std::erase(overdue_, ref);
  }
  --writing_;
  Slab& slab = core.slab_of(ref);
  const PageId page = core.catalog->page_of(ref);
  const bool believed = !event.was_overdue &&
                        part.flush_failures == lane(part.slab).flush_failures &&
                        !HC_FAILPOINT_FAILS(spill_write_done);
  if (event.code != Code::ok || !believed) {
    // No row names the slot: what the write left in it is inert.
    if (event.device_failed()) {
      slab.mark_quarantined(part.slot);
      ++core.counters.slots_quarantined;
    } else {
      slab.cancel_write(part.slot);
    }
    fail(ref, event.code == Code::ok ? Code::io_error : event.code);
    return;
  }
  ++core.counters.spills;
  core.counters.bytes_spilled += slab.header().slot_bytes;
  leave_lane(ref);
  slab.mark_written(part.slot);
  part.l3 = L3State::written;
  works_.commit.count_written(1);
  if (!core.catalog->page(page).doomed) {
    core.slot_order.insert(*core.catalog, ref);
    works_.pages.publish_status(page);
    works_.commit.mark_dirty(page);
    works_.events->part_written(ref);
    if (HC_MUTANT(durable_told_when_written)) {
      works_.events->part_durable(ref);
    }
  }
  HC_FAILPOINT(spill_written);
  finish(ref);
}

void Spiller::evict(PageId id, SlabId slab, EvictionCause cause) {
  Core& core = works_.core;
  Catalog& catalog = *core.catalog;
  const Page page = catalog.page(id);
  HC_CHECK(page.holds == 0 && page.busy == 0);
  if (core.evictions != nullptr) {
    core.evictions->evicting(id, slab, cause);
  }
  HC_FAILPOINT(gc_evicting);
  works_.pages.hold(id);  // what the events below start must not evict it again
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const PartRef ref = catalog.ref(id, at);
    Part& part = catalog.part(ref);
    if (part.l2 == L2State::resident) {
      core.counters.parts_dropped_unspilled += part.l3 == L3State::absent ? 1U : 0U;
      works_.pages.drop_frame(ref);
    }
    if (part.l3 >= L3State::written) {
      // Whoever waits for it is told. It is no loss: the oldest page goes, durable or not.
      const bool was_unsettled = catalog.unsettled().contains(ref.value);
      take_slot(ref, false);
      if (was_unsettled) {
        catalog.unsettled().remove(ref.value);
        works_.events->part_spill_failed(ref, Code::no_space);
      }
    }
  }
  ++core.counters.pages_evicted_l3;
  works_.pages.unlink(id);
  works_.pages.drop_hold(id);
  works_.commit.add_erase(page.space, page.hash);
  catalog.destroy(id);
  HC_FAILPOINT(gc_evicted);
}

// Takes the stored copy out of the order. Its slot goes to limbo, or is not used again.
void Spiller::take_slot(PartRef ref, bool quarantine) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l3 >= L3State::written);
  works_.commit.count_written(part.l3 == L3State::written ? -1 : 0);
  const SlabId slab_id = part.slab;
  Slab& slab = core.spaces->slabs().slab(slab_id);
  core.slot_order.order(slab_id).remove(part.slot.value);
  if (quarantine) {
    slab.mark_quarantined(part.slot);
    ++core.counters.slots_quarantined;
  } else {
    slab.mark_limbo(part.slot);
    HC_MUTANT(slot_free_before_commit) ? slab.leave_limbo(part.slot)
                                       : works_.commit.add_limbo({slab_id, part.slot});
  }
  part.l3 = L3State::absent;
  part.slot = kNoSlot;
  part.slab = kNoSlab;
  part.generation = kNoGeneration;
  ++core.moves;
}

// The part will not become durable: whoever waits for it is told, and every flush that covers it.
void Spiller::give_up(PartRef ref, Code code) {
  Core& core = works_.core;
  if (core.catalog->unsettled().contains(ref.value)) {
    core.catalog->unsettled().remove(ref.value);
    core.ledger.lose(core.catalog->part(ref).barrier, code);
    works_.events->part_spill_failed(ref, code);
  }
}

void Spiller::write_again(PartRef ref, Code code) {
  take_slot(ref, false);
  Part& part = works_.core.catalog->part(ref);
  if (part.l2 == L2State::resident && part.repeats < kRespillsMax) {
    ++part.repeats;
    ++works_.core.counters.spills_repeated;
    enqueue(ref);  // it stays unsettled: flushes go on waiting for it
  } else {
    give_up(ref, code);
  }
}

void Spiller::drop_stored(PartRef ref, bool quarantine) {
  take_slot(ref, quarantine);
  give_up(ref, Code::io_error);
  works_.commit.mark_dirty(works_.core.catalog->page_of(ref));
}

}  // namespace hc
