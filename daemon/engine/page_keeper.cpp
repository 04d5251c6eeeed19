// SPDX-License-Identifier: Apache-2.0
// page_keeper: status entries, eviction orders and the end of pages.
#include "daemon/engine/page_keeper.h"

#include "daemon/engine/works.h"
#include "proto/check.h"

namespace hc {

namespace {

// Pages at the old end of L2 that are looked at for records, beside as many as are wanted.
constexpr std::uint32_t kRecordLooksMax = 64;
// Pages that one look for frames sends to disk beside as many as are wanted (write_back).
constexpr std::uint32_t kSpillsPerLookMax = 16;

}  // namespace

PageId PageKeeper::find_or_create(SpaceNo space, const PageHash& hash) {
  Catalog& catalog = *core_.catalog;
  const PageId known = catalog.find(space, hash);
  if (known != kNoPage) {
    return known;
  }
  const PageId page = catalog.create(core_.spaces->space(space).family, space, hash);
  if (page != kNoPage) {
    catalog.page(page).last_access = catalog.tick();
    ++core_.spaces->space(space).pages;
  }
  return page;
}

bool PageKeeper::touch(PageId id) {
  Catalog& catalog = *core_.catalog;
  Page& page = catalog.page(id);
  HC_CHECK(page.in_use);
  page.last_access = catalog.tick();
  LruList& order = catalog.l2_order(page.family);
  if (order.contains(id.value)) {
    order.move_to_newest(id.value);
  }
  bool stored = false;
  for (std::uint32_t part = 0; part < catalog.parts_per_page(id); ++part) {
    const Part& at = catalog.part(catalog.ref(id, part));
    if (at.l3 >= L3State::written) {
      core_.slot_order.touch(at.slab, at.slot, page.last_access);
      stored = true;
    }
  }
  return stored;
}

void PageKeeper::prefetch_status(PageId id) const {
  const Page& page = core_.catalog->page(id);
  if (page.in_use) {
    core_.spaces->space(page.space).status->prefetch(page.hash);
  }
}

void PageKeeper::publish_status(PageId id) {
  Catalog& catalog = *core_.catalog;
  const Page& page = catalog.page(id);
  if (page.doomed) {
    return;
  }
  PageStatus status;
  for (std::uint32_t part = 0; part < catalog.parts_per_page(id); ++part) {
    const Part& at = catalog.part(catalog.ref(id, part));
    const std::uint64_t bit = std::uint64_t{1} << part;
    status.resident |= at.l2 == L2State::resident ? bit : 0;
    status.stored |= at.l3 >= L3State::written ? bit : 0;
    status.durable |= at.l3 == L3State::durable ? bit : 0;
  }
  if (core_.spaces->space(page.space).status->put(page.hash, status) != Code::ok) {
    ++core_.counters.status_overflow;
  }
}

void PageKeeper::unlink(PageId id) {
  const Page& page = core_.catalog->page(id);
  Space& space = core_.spaces->space(page.space);
  // Removing can't overflow: the entry is there or it is not.
  const Code removed = space.status->put(page.hash, PageStatus{});
  HC_CHECK(removed == Code::ok);
  HC_CHECK(space.pages > 0);
  --space.pages;
  core_.catalog->unlink(id);
}

bool PageKeeper::end_if_empty(PageId id) {
  Catalog& catalog = *core_.catalog;
  const Page& page = catalog.page(id);
  if (!page.in_use || page.doomed || page.holds > 0 || page.busy > 0 || catalog.has_any_part(id)) {
    return false;
  }
  for (std::uint32_t part = 0; part < catalog.parts_per_page(id); ++part) {
    if (catalog.part(catalog.ref(id, part)).first_waiter != kNone32) {
      return false;
    }
  }
  if (page.dirty) {
    works_.commit.add_erase(page.space, page.hash);  // a row may name parts that were dropped
  }
  unlink(id);
  catalog.destroy(id);
  return true;
}

void PageKeeper::hold(PageId id) {
  ++core_.catalog->page(id).holds;
  core_.catalog->update_l2_order(id);
}

void PageKeeper::drop_hold(PageId id) {
  Page& page = core_.catalog->page(id);
  HC_CHECK(page.holds > 0);
  --page.holds;
  core_.catalog->update_l2_order(id);
}

void PageKeeper::busy(PageId id) {
  ++core_.catalog->page(id).busy;
  core_.catalog->update_l2_order(id);
}

void PageKeeper::drop_busy(PageId id) {
  Page& page = core_.catalog->page(id);
  HC_CHECK(page.busy > 0);
  --page.busy;
  ++core_.moves;
  core_.catalog->update_l2_order(id);
}

void PageKeeper::unsettle(PartRef ref) {
  if (!core_.catalog->unsettled().contains(ref.value)) {
    Part& part = core_.catalog->part(ref);
    part.barrier = core_.next_barrier++;
    part.unsettled_since_ms = core_.now_ms();
    part.repeats = 0;
    core_.catalog->unsettled().push_newest(ref.value);
  }
}

void PageKeeper::unsettle_first(PartRef ref) {
  LruList& unsettled = core_.catalog->unsettled();
  if (!unsettled.contains(ref.value)) {
    Part& part = core_.catalog->part(ref);
    part.barrier = 0;
    part.unsettled_since_ms = core_.now_ms();
    part.repeats = 0;
    unsettled.insert_older_than(ref.value, unsettled.oldest());
  }
}

// A stored copy of a page that lives goes on to its own commit.
void PageKeeper::stop_unsettled(PartRef ref) {
  const bool goes_on = core_.catalog->part(ref).l3 != L3State::absent &&
                       !core_.catalog->page(core_.catalog->page_of(ref)).doomed;
  if (!goes_on && core_.catalog->unsettled().contains(ref.value)) {
    core_.catalog->unsettled().remove(ref.value);
  }
}

bool PageKeeper::can_fit(const Family& family,
                         std::span<const std::uint32_t> frames_by_kind) const {
  const auto& pools = family.frames;
  for (std::size_t kind = 0; kind < pools.size(); ++kind) {
    if (frames_by_kind[kind] > pools[kind].frame_count()) {
      return false;
    }
  }
  return true;
}

bool PageKeeper::ensure_frames(Family& family, std::uint16_t kind, std::uint32_t count) {
  FramePool& pool = family.frames[kind];
  std::uint32_t spills_left = count + kSpillsPerLookMax;
  while (pool.free_count() < count) {
    LruList& order = core_.catalog->l2_order(family.number);
    if (order.empty()) {
      return false;
    }
    const PageId oldest{order.oldest()};
    if (!works_.admission.keeps(oldest)) {
      evict_l2(oldest);
    } else if (spills_left-- > 0) {
      works_.admission.spill(oldest);  // on its way to disk it is not in the order
    } else {
      return false;
    }
  }
  return true;
}

// A page with a stored part keeps its record when it leaves L2, so it stays there.
bool PageKeeper::ensure_records(const Family& family, std::uint32_t count) {
  if (records_from_memory(family, count)) {
    return true;
  }
  const Catalog& catalog = *core_.catalog;
  while (catalog.pages_free(family.number) < count && works_.spiller.evict_oldest(family)) {
  }
  return catalog.pages_free(family.number) >= count;
}

bool PageKeeper::records_from_memory(const Family& family, std::uint32_t count) {
  Catalog& catalog = *core_.catalog;
  const LruList& order = catalog.l2_order(family.number);
  std::uint32_t at = order.oldest();
  for (std::uint32_t looks = 0; looks < count + kRecordLooksMax && at != kNone32; ++looks) {
    const std::uint32_t newer = order.newer_than(at);
    if (catalog.pages_free(family.number) >= count) {
      return true;
    }
    if (!catalog.has_stored_part(PageId{at}) && !works_.admission.keeps(PageId{at})) {
      evict_l2(PageId{at});
    }
    at = newer;
  }
  return catalog.pages_free(family.number) >= count;
}

// The whole page: all kinds and all shards of this node together.
void PageKeeper::evict_l2(PageId id) {
  Catalog& catalog = *core_.catalog;
  HC_CHECK(catalog.page(id).holds == 0);
  HC_CHECK(catalog.page(id).busy == 0);
  for (std::uint32_t part = 0; part < catalog.parts_per_page(id); ++part) {
    const PartRef ref = catalog.ref(id, part);
    if (catalog.part(ref).l2 == L2State::resident) {
      core_.counters.parts_dropped_unspilled += catalog.part(ref).l3 == L3State::absent ? 1U : 0U;
      drop_frame(ref);
    }
  }
  ++core_.counters.pages_evicted_l2;
  catalog.update_l2_order(id);
  if (!end_if_empty(id)) {
    publish_status(id);
  }
}

void PageKeeper::drop_frame(PartRef ref) {
  Part& part = core_.catalog->part(ref);
  HC_CHECK(part.l2 != L2State::absent);
  HC_CHECK(part.l3 != L3State::queued && part.l3 != L3State::writing);
  works_.admission.let_go(ref);
  core_.frames_of(ref).give_back(part.frame);
  part.frame = kNoFrame;
  part.l2 = L2State::absent;
  part.payload_crc = 0;
  ++core_.moves;
}

}  // namespace hc
