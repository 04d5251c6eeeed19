// SPDX-License-Identifier: Apache-2.0
// load_verb: copies pages' payloads into the client's region, from L2 or through L2 from disk.
//
// Parts are started in page order, a bounded window at a time; a part that is not resident is read
// into a frame first, which stays as an opportunistic L2 entry. The first page that is not there
// ends the prefix: nothing behind it is started.
#include <algorithm>

#include "daemon/engine/verbs.h"
#include "proto/check.h"

namespace hc {

namespace {

// Parts of one load that are under way at a time, so that a long load can't take every frame.
constexpr std::size_t kLoadWindow = 64;

}  // namespace

void Verbs::start_load(std::uint32_t index) {
  if (!count_rank_pages(index)) {
    ends_.finish(index, Code::busy, Ack::done);
    return;
  }
  Op& op = core_.ops.op(index);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  op.from_disk.assign(pages, 0);
  for (std::uint32_t i = pages; i-- > 0;) {
    if (const PageId page = page_at(index, i); page != kNoPage) {
      touch(page);
      note_use(index, page);
    }
  }
  advance_load(index);
}

// The next part that this load needs, in page order. False: there is none.
bool Verbs::next_load_part(std::uint32_t index, std::uint16_t& kind, PartRef& ref,
                           bool& missing) {
  Op& op = core_.ops.op(index);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  const auto& kinds = core_.family_of(op.session).descriptor.kinds;
  for (; op.next_page < pages; ++op.next_page, op.next_kind = 0) {
    bool found = false;
    const std::uint32_t from_kind = op.next_kind;
    for_each_part(core_, op, op.next_page, [&](std::uint16_t k, std::uint32_t part) {
      if (found || k < from_kind || !kind_needed(kinds[k], op.next_page, pages)) {
        return;
      }
      found = true;
      kind = k;
      const PageId page = page_at(index, op.next_page);
      missing = page == kNoPage;
      ref = missing ? PartRef{} : core_.catalog->ref(page, part);
    });
    if (found) {
      return true;
    }
  }
  return false;
}

void Verbs::advance_load(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  const std::uint32_t use = op.use;
  op.stalled = false;
  while (!op.ending && op.miss_page == kNone32 && op.items.size() < kLoadWindow) {
    std::uint16_t kind = 0;
    PartRef ref{};
    bool missing = false;
    if (!next_load_part(index, kind, ref, missing)) {
      break;
    }
    const std::uint32_t page = op.next_page;
    op.next_kind = kind + 1U;  // before the start: what it calls may come back in here
    const LoadStep step = missing ? LoadStep::miss : start_load_part(index, kind, ref);
    if (!op.in_use || op.use != use) {
      return;
    }
    if (step == LoadStep::miss) {
      op.miss_page = std::min(op.miss_page, page);
    } else if (step == LoadStep::wait) {
      op.next_kind = kind;
      op.stalled = true;
      stalled_loads_.emplace_back(index, use);
      break;
    }
  }
  works_.copies.turn();
  if (op.in_use && op.use == use && !op.ending && !op.stalled && op.items.empty()) {
    finish_load(index);
  }
}

Verbs::LoadStep Verbs::start_load_part(std::uint32_t index, std::uint16_t kind, PartRef ref) {
  Op& op = core_.ops.op(index);
  Part& part = core_.catalog->part(ref);
  const PageId page = core_.catalog->page_of(ref);
  if (part.l2 == L2State::absent && part.l3 < L3State::written) {
    return LoadStep::miss;
  }
  const bool wanted = core_.quotas.is_wanted(core_.family_of(page));
  if (core_.ops.items_free() == 0 || (wanted && part.l2 == L2State::absent)) {
    return LoadStep::wait;
  }
  works_.pages.hold(page);  // until the item ends: what is there now must stay
  if (part.l2 == L2State::absent && !works_.pages.ensure_frames(core_.family_of(page), kind, 1)) {
    works_.pages.drop_hold(page);
    return LoadStep::wait;
  }
  const std::uint32_t item_index = core_.ops.new_item(index);
  Item& item = core_.ops.item(item_index);
  item.part = ref;
  item.kind = kind;
  item.page_index = op.next_page;
  item.holds_page = true;
  if (part.l2 == L2State::resident) {
    item.role = ItemRole::copier;
    works_.pages.busy(page);
    works_.copies.copy(item_index);
    return LoadStep::next;
  }
  item.needs_resident = true;
  core_.ops.add_waiter(*core_.catalog, item_index);
  if (part.l2 == L2State::absent || part.reading) {
    op.pages_from_l3 += op.from_disk[op.next_page] == 0 ? 1U : 0U;
    op.from_disk[op.next_page] = 1;
  }
  if (part.l2 == L2State::absent) {
    works_.fills.start(ref);
  }
  return LoadStep::next;
}

void Verbs::load_copy_done(std::uint32_t item_index, Code code) {
  const Item item = core_.ops.item(item_index);
  const std::uint32_t index = item.op;
  Op& op = core_.ops.op(index);
  const PageId page = core_.catalog->page_of(item.part);
  works_.pages.drop_busy(page);
  ends_.free_item(item_index);
  if (op.ending) {
    ends_.continue_end(index);
    return;
  }
  if (code != Code::ok) {
    ends_.end(index, code);
    return;
  }
  op.bytes += core_.payload_bytes(item.part);
  advance_load(index);
}

void Verbs::load_miss(std::uint32_t index, std::uint32_t page_index) {
  Op& op = core_.ops.op(index);
  op.miss_page = std::min(op.miss_page, page_index);
  if (op.ending) {
    ends_.continue_end(index);
  } else if (!op.stalled) {
    advance_load(index);
  }
}

void Verbs::finish_load(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  const std::uint32_t there = std::min(op.miss_page, pages);
  const bool prefix_is_enough = op.has_flag(kFlagMaxPrefix) && there > 0;
  const std::uint32_t from_disk = std::min(op.pages_from_l3, there);
  core_.counters.pages_hit_l3 += from_disk;
  core_.counters.pages_hit_l2 += there - from_disk;
  core_.counters.pages_missed += there < pages ? 1U : 0U;
  ends_.finish(index, there == pages || prefix_is_enough ? Code::ok : Code::not_found, Ack::done);
}

}  // namespace hc
