// SPDX-License-Identifier: Apache-2.0
// disk_fill: read, judge every header field, sum the payload, publish.
#include "daemon/engine/disk_fill.h"

#include "daemon/engine/stored_header.h"
#include "daemon/engine/works.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

void DiskFill::start(PartRef ref) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l2 == L2State::absent);
  HC_CHECK(part.l3 >= L3State::written);
  const auto frame = core.frames_of(ref).take();
  HC_CHECK(frame.has_value());
  part.frame = *frame;
  part.l2 = L2State::filling;
  part.reading = true;
  works_.pages.busy(core.catalog->page_of(ref));
  // Started here without a look at the queue: what waits there may fail and call back into the
  // verb that is starting this one.
  const std::uint16_t volume = core.volume_of_part(ref);
  auto& queue = queues_[volume];
  if (queue.empty() && can_read(volume) && !is_unreachable(volume)) {
    read(ref);
  } else {
    queue.push_back(ref);
    ++queued_;
    ++core.moves;
  }
}

bool DiskFill::can_read(std::uint16_t volume) const {
  return works_.core.io.can_start(IoKind::read_blob, volume);
}

// It has failed while others serve.
bool DiskFill::is_unreachable(std::uint16_t volume) const {
  const IoQueue& io = works_.core.io;
  return io.volume_count() > 1 && io.refuses(IoKind::read_blob, volume);
}

void DiskFill::read(PartRef ref) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  // The slot may have been dropped while the read waited for its turn.
  if (core.catalog->page(core.catalog->page_of(ref)).doomed || part.l3 < L3State::written) {
    fail(ref, BlobVerdict::good, false);
    return;
  }
  if (is_unreachable(core.volume_of_part(ref))) {
    ++core.counters.parts_unreachable;
    works_.spiller.drop_stored(ref, false);  // else a new store of it would find nothing to copy
    fail(ref, BlobVerdict::good, false);
    return;
  }
  Slab& slab = core.slab_of(ref);
  slab.pin(part.slot);
  part.read_slot = part.slot;
  part.read_slab = part.slab;
  const BlobPlace place{slab.file(), slab.slot_offset(part.slot),
                        core.frames_of(ref).payload(part.frame),
                        slab.header().slot_bytes - kBlockBytes,
                        core.frames_of(ref).header(part.frame)};
  ++reading_;
  core.io.start_read(place, io_cookie(IoOwner::fill, ref.value));
  HC_FAILPOINT(reload_read_started);
}

void DiskFill::turn() {
  for (std::uint16_t volume = 0; volume < works_.core.io.volume_count(); ++volume) {
    auto& queue = queues_[volume];
    while (!queue.empty() && (can_read(volume) || is_unreachable(volume))) {
      const PartRef ref = queue.front();
      queue.pop_front();
      --queued_;
      read(ref);
    }
  }
  tell_overdue();
}

// Those who came after the notice. What is told may start new reads, never end one of these.
void DiskFill::tell_overdue() {
  for (std::size_t i = 0; i < overdue_.size(); ++i) {
    if (works_.core.catalog->part(overdue_[i]).first_waiter != kNone32) {
      works_.events->part_fill_failed(overdue_[i], Code::not_found);
    }
  }
}

BlobVerdict DiskFill::judge(PartRef ref, const IoEvent& event) {
  BlobHeader header{};
  const BlobVerdict verdict = judge_stored_header(works_.core, ref, event.header_block, header);
  works_.core.catalog->part(ref).payload_crc = header.payload_crc;
  return verdict;
}

void DiskFill::on_read(const IoEvent& event) {
  Core& core = works_.core;
  const PartRef ref{io_value(event.cookie)};
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l2 == L2State::filling && part.reading);
  HC_CHECK(reading_ > 0);
  if (event.overdue) {
    ++core.counters.read_failures;
    overdue_.push_back(ref);
    tell_overdue();
    return;
  }
  if (event.was_overdue) {
    std::erase(overdue_, ref);
  }
  --reading_;
  ++core.counters.reads;
  Slab& slab = core.spaces->slabs().slab(part.read_slab);
  slab.unpin(part.read_slot);
  part.read_slot = kNoSlot;
  part.read_slab = kNoSlab;
  const bool dropped = core.catalog->page(core.catalog->page_of(ref)).doomed ||
                       part.l3 < L3State::written;
  if (dropped) {
    fail(ref, BlobVerdict::good, false);
    return;
  }
  if (event.code != Code::ok || HC_FAILPOINT_FAILS(reload_read_done)) {
    ++core.counters.read_failures;
    fail(ref, BlobVerdict::good, event.device_failed());  // else: a miss this time, no more
    return;
  }
  core.counters.bytes_read += slab.header().slot_bytes;
  const BlobVerdict verdict = judge(ref, event);
  if (verdict != BlobVerdict::good) {
    fail(ref, verdict, false);
    return;
  }
  works_.copies.sum(ref);
}

void DiskFill::on_sum(PartRef ref, std::uint32_t crc) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  HC_CHECK(part.l2 == L2State::filling && part.reading);
  const PageId page = core.catalog->page_of(ref);
  if (core.catalog->page(page).doomed || part.l3 < L3State::written) {
    fail(ref, BlobVerdict::good, false);
    return;
  }
  const bool unchecked = HC_MUTANT(payload_sum_unchecked) || HC_MUTANT(checksums_unchecked);
  if (crc != part.payload_crc && !unchecked) {
    fail(ref, BlobVerdict::bad_payload_crc, false);
    return;
  }
  HC_FAILPOINT(reload_summed);
  core.frames_of(ref).publish(part.frame);
  part.l2 = L2State::resident;
  part.reading = false;
  part.spill_wanted = false;  // of a store that waited: the part is on disk
  works_.pages.publish_status(page);
  works_.events->part_resident(ref);
  HC_FAILPOINT(reload_told);
  works_.pages.drop_busy(page);
  works_.forget.settle(page);
}

// `verdict` good: nothing wrong with the bytes (the page was forgotten, the device failed, or the
// read was not done). Only what is damaged loses its stored copy.
void DiskFill::fail(PartRef ref, BlobVerdict verdict, bool device_failed) {
  Core& core = works_.core;
  Part& part = core.catalog->part(ref);
  const PageId page = core.catalog->page_of(ref);
  if (verdict != BlobVerdict::good) {
    ++core.counters.verify[static_cast<std::size_t>(verdict)];
  }
  const bool damaged = verdict != BlobVerdict::good || device_failed;
  if (damaged && !core.catalog->page(page).doomed) {
    works_.spiller.drop_stored(ref, device_failed);
    HC_FAILPOINT(reload_damaged_dropped);
  }
  // Last, so that whoever else is told of the loss can't take the frame: a store that waits here
  // fills the part itself, and needs it.
  part.reading = false;
  works_.pages.drop_frame(ref);
  works_.events->part_fill_failed(ref, Code::not_found);
  works_.pages.drop_busy(page);
  works_.forget.settle(page);
  if (core.catalog->page(page).in_use && !works_.pages.end_if_empty(page)) {
    works_.pages.publish_status(page);
  }
}

}  // namespace hc
