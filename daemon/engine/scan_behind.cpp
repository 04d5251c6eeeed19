// SPDX-License-Identifier: Apache-2.0
// scan_behind: bounded header reads beside the service.
#include "daemon/engine/scan_behind.h"

#include <utility>

#include "daemon/engine/stored_header.h"
#include "daemon/engine/works.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::uint32_t kInFlightMax = 16;
constexpr std::uint8_t kTriesMax = 16;

}  // namespace

ScanBehind::ScanBehind(Works& works, std::vector<Entry> entries)
    : works_(works), entries_(std::move(entries)), tries_(entries_.size()) {}

bool ScanBehind::still_there(const Entry& entry) const {
  const Catalog& catalog = *works_.core.catalog;
  const Page& page = catalog.page(catalog.page_of(entry.ref));
  const Part& part = catalog.part(entry.ref);
  return page.in_use && !page.doomed && part.l3 == L3State::durable && part.slot == entry.slot &&
         part.generation == entry.generation;
}

bool ScanBehind::can_read() const {
  if (repeats_.empty() && next_ >= entries_.size()) {
    return false;
  }
  const Entry& entry = entries_[repeats_.empty() ? next_ : repeats_.back()];
  const FileId file = works_.core.spaces->slabs().slab(entry.slab).file();
  const IoQueue& io = works_.core.io;
  return io.can_start(IoKind::read_header, volume_of(file)) &&
         !io.refuses(IoKind::read_header, volume_of(file));
}

void ScanBehind::turn() {
  while (in_flight_ < kInFlightMax && can_read()) {
    if (!repeats_.empty()) {
      const std::uint32_t index = repeats_.back();
      repeats_.pop_back();
      read(index);
    } else {
      read(static_cast<std::uint32_t>(next_++));
    }
  }
}

void ScanBehind::read(std::uint32_t index) {
  const Entry& entry = entries_[index];
  if (!still_there(entry)) {
    ++progress_.scanned;
    return;
  }
  Slab& slab = works_.core.spaces->slabs().slab(entry.slab);
  slab.pin(entry.slot);
  works_.pages.busy(works_.core.catalog->page_of(entry.ref));  // a forget waits with its wipe
  ++in_flight_;
  works_.core.io.start_read_header(slab.file(), slab.slot_offset(entry.slot),
                                   io_cookie(IoOwner::scan, index));
}

void ScanBehind::on_scan(const IoEvent& event) {
  const auto index = static_cast<std::uint32_t>(io_value(event.cookie));
  HC_CHECK(index < entries_.size() && in_flight_ > 0);
  if (event.overdue) {
    return;  // nobody waits for it; its slot stays pinned
  }
  --in_flight_;
  ++works_.core.moves;
  const Entry& entry = entries_[index];
  works_.core.spaces->slabs().slab(entry.slab).unpin(entry.slot);
  const PageId page = works_.core.catalog->page_of(entry.ref);
  works_.pages.drop_busy(page);
  finish(index, event);
  HC_FAILPOINT(load_scanned_behind);
  works_.forget.settle(page);
  if (works_.core.catalog->page(page).in_use && !works_.pages.end_if_empty(page)) {
    works_.pages.publish_status(page);
  }
}

void ScanBehind::finish(std::uint32_t index, const IoEvent& event) {
  const Entry& entry = entries_[index];
  const bool refused = event.code != Code::ok && !event.device_failed();
  const bool volume_failed = event.not_tried || event.volume_fault;
  if (refused && (volume_failed || ++tries_[index] < kTriesMax)) {
    repeats_.push_back(index);  // says nothing about the slot
    return;
  }
  ++progress_.scanned;
  if (still_there(entry) && !refused) {
    judge(entry, event);
  }
}

void ScanBehind::judge(const Entry& entry, const IoEvent& event) {
  Core& core = works_.core;
  BlobHeader header{};
  const BlobVerdict verdict = event.code == Code::ok
                                  ? judge_stored_header(core, entry.ref, event.header_block, header)
                                  : BlobVerdict::good;
  if (event.code != Code::ok) {
    ++core.counters.read_failures;
  } else if (verdict == BlobVerdict::good) {
    return;
  } else {
    ++core.counters.verify[static_cast<std::size_t>(verdict)];
  }
  ++progress_.dropped;
  works_.spiller.drop_stored(entry.ref, event.code != Code::ok);
}

void ScanBehind::stop() {
  repeats_.clear();
  next_ = entries_.size();
}

}  // namespace hc
