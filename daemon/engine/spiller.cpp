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

// Pages at the old end that are in use right now are passed over; more than this many and the
// spill takes a reserve slot instead.
constexpr int kEvictLooksMax = 64;
// A part whose flush fails is written again that often; each time takes a commit interval.
constexpr std::uint8_t kRespillsMax = 3;

}  // namespace

void Spiller::enqueue(PartRef ref) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l2 == L2State::resident);
  HC_CHECK(part.l3 == L3State::absent);
  const auto& slab = core.family().slabs[core.catalog->part_of(ref)];
  HC_CHECK(slab.has_value());
  HC_CHECK(slab->value < queues_.size());
  part.l3 = L3State::queued;
  works_.pages.busy(core.catalog->page_of(ref));
  queues_[slab->value].push_back(ref);
  ++queued_;
}

// Parts of doomed pages leave a queue whose front waits: the page can't end while they stand there.
void Spiller::turn() {
  const bool purge = std::exchange(doomed_, false);
  for (auto& queue : queues_) {
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
      fail(ref, Code::cancelled);
    } else {
      queue.push_back(ref);
    }
  }
}

// Evicts until the slab has a place for one more live page, or nothing can be evicted.
void Spiller::make_room(SlabId slab_id) {
  Core& core = works_.core;
  Slab& slab = core.spaces->slabs().slab(slab_id);
  const std::uint32_t usable = slab.usable_count();
  if (usable == 0) {
    return;
  }
  // A slab of an earlier configuration, or of a failing device, may be smaller than the reserve.
  const std::uint32_t reserve = HC_MUTANT(reserve_ignored) ? 0 : core.family().reserve_slots;
  const std::uint32_t live_max = usable - std::min(reserve, usable - 1);
  LruList& order = core.slot_order.order(slab_id);
  std::uint32_t slot = order.oldest();
  for (int looks = 0; looks < kEvictLooksMax && slab.live_count() >= live_max; ++looks) {
    if (slot == kNone32) {
      return;
    }
    const std::uint32_t newer = order.newer_than(slot);
    const PageId page = core.catalog->page_of(core.slot_order.owner(slab_id, slot));
    if (core.catalog->page(page).holds > 0) {
      // An engine uses it: it is not old. Its clock says so too, or the orders would disagree.
      works_.pages.touch(page);
      works_.commit.mark_dirty(page);
    } else if (core.catalog->page(page).busy == 0) {
      evict(page);
    }
    slot = newer;
    if (slot != kNone32 && !order.contains(slot)) {
      slot = order.oldest();  // the page had two slots in this slab's order
    }
  }
}

bool Spiller::evict_oldest() {
  Core& core = works_.core;
  LruList* fullest = nullptr;
  SlabId slab{};
  for (std::uint16_t id = 0; id < core.slot_order.slab_count(); ++id) {
    LruList& order = core.slot_order.order(SlabId{id});
    if (!order.empty() && (fullest == nullptr || order.size() > fullest->size())) {
      fullest = &order;
      slab = SlabId{id};
    }
  }
  std::uint32_t slot = fullest == nullptr ? kNone32 : fullest->oldest();
  for (int looks = 0; looks < kEvictLooksMax && slot != kNone32; ++looks) {
    const PageId page = core.catalog->page_of(core.slot_order.owner(slab, slot));
    if (core.catalog->page(page).holds == 0 && core.catalog->page(page).busy == 0) {
      evict(page);
      return true;
    }
    slot = fullest->newer_than(slot);
  }
  return false;
}

// Starts the write of the queue's first part, or fails it; wait: nothing can be done now.
Spiller::Step Spiller::start_front(std::deque<PartRef>& queue) {
  Core& core = works_.core;
  const PartRef ref = queue.front();
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l3 == L3State::queued);
  if (core.catalog->page(core.catalog->page_of(ref)).doomed) {
    fail(ref, Code::cancelled);
    return Step::next;
  }
  if (!core.io.can_start(IoKind::write_blob, core.volume_of_part(ref))) {
    return Step::wait;
  }
  const SlabId slab_id = *core.family().slabs[core.catalog->part_of(ref)];
  Slab& slab = core.spaces->slabs().slab(slab_id);
  // While commits fail, evicting frees nothing, and waiting for limbo would keep the frames of the
  // queue from everybody: what is left is what is free.
  const bool commits_fail = works_.commit.is_failing();
  if (!commits_fail) {
    make_room(slab_id);
  }
  if (slab.free_count() == 0) {
    if (slab.limbo_count() > 0 && !commits_fail) {
      works_.commit.request_soon();  // limbo becomes free with the commit
      return Step::wait;
    }
    if (slab.unscanned_count() > 0 && core.rebuilding) {
      return Step::wait;  // the next ones that turn out to be free
    }
    fail(ref, commits_fail ? works_.commit.failure_code() : Code::no_space);
    return Step::next;
  }
  if (slab.free_count() <= core.family().reserve_slots / 4) {
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
  Slab& slab = *core.slab_of(ref);
  part.slot = slot;
  part.generation = generation;
  part.l3 = L3State::writing;
  part.flush_failures = flush_failures_[core.family().slabs[at]->value];
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
        header.kind = core.family().kind_of(at);
        header.payload_bytes = core.family().payload_bytes(at);
        header.page_hash = page.hash;
        header.payload_crc = part.payload_crc;
        header.space_tag = core.spaces->space(page.space).tags[at];
        header.slot = slot.value;
        header.generation = generation.value;
        encode_header_block(block, header, core.superblock->seed_of(page.space), metadata);
      });
}

void Spiller::note_flush(SlabId slab, bool failed) {
  Legacy& legacy = legacy_[slab.value];
  flush_failures_[slab.value] += failed ? 1U : 0U;
  if (legacy == Legacy::unknown) {
    legacy = failed ? Legacy::lost : Legacy::flushed;
  }
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
  part.l3 = L3State::absent;
  part.slot = kNoSlot;
  part.generation = kNoGeneration;
  if (core.catalog->unsettled().contains(ref.value)) {
    core.catalog->unsettled().remove(ref.value);
    if (code != Code::cancelled) {  // cancelled: forgotten, nobody misses it
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
  Slab& slab = *core.slab_of(ref);
  const PageId page = core.catalog->page_of(ref);
  const SlabId slab_id = *core.family().slabs[core.catalog->part_of(ref)];
  const bool believed = !event.was_overdue &&
                        part.flush_failures == flush_failures_[slab_id.value] &&
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
  slab.mark_written(part.slot);
  part.l3 = L3State::written;
  works_.commit.count_written(1);
  if (!core.catalog->page(page).doomed) {
    core.slot_order.insert(*core.catalog, slab_id, ref);
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

void Spiller::evict(PageId id) {
  Core& core = works_.core;
  Catalog& catalog = *core.catalog;
  const Page page = catalog.page(id);
  HC_CHECK(page.holds == 0 && page.busy == 0);
  HC_FAILPOINT(gc_evicting);
  works_.pages.hold(id);  // what the events below start must not evict it again
  for (std::uint32_t at = 0; at < catalog.parts_per_page(); ++at) {
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
  const SlabId slab_id = *core.family().slabs[core.catalog->part_of(ref)];
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
