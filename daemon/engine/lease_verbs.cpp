// SPDX-License-Identifier: Apache-2.0
// lease_verbs: reload and pin put pages under a lease, all or none; release ends one.
#include "daemon/engine/verbs.h"
#include "proto/check.h"

namespace hc {

bool Verbs::open_lease(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  EngineSession* session = core_.sessions.find(op.session);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  if (!core_.quotas.has_lease_records(*session, pages)) {
    return false;
  }
  const auto lease = core_.leases.open(op.session);
  HC_CHECK(lease.has_value());
  op.lease = *lease;
  ++session->leases;
  core_.quotas.note_lease(*session, true);
  return true;
}

void Verbs::add_to_lease(std::uint32_t index, PageId page, std::uint16_t owner) {
  const Op& op = core_.ops.op(index);
  const bool added = core_.leases.add(op.lease, page, owner);
  HC_CHECK(added);
  core_.quotas.lease(*core_.sessions.find(op.session), {page, owner});
  works_.pages.hold(page);
}

// Puts every page of the operation under its lease. False: answered busy.
bool Verbs::lease_pages(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  if (!open_lease(index)) {
    ends_.finish(index, Code::busy, Ack::done);
    return false;
  }
  for (std::uint32_t i = 0; i < op.request.pages.size(); ++i) {
    const PageId page = page_at(index, i);
    if (page == kNoPage) {
      continue;  // nothing of it is this rank's: another rank or node has it
    }
    add_to_lease(index, page, op.request.pages[i].owner);
  }
  for (auto i = static_cast<std::uint32_t>(op.request.pages.size()); i-- > 0;) {
    if (const PageId page = page_at(index, i); page != kNoPage) {
      touch(page);
      note_use(index, page);
    }
  }
  return true;
}

void Verbs::start_pin(std::uint32_t index) {
  const Op& op = core_.ops.op(index);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  const auto& kinds = core_.family_of(op.session).descriptor.kinds;
  bool there = true;
  for (std::uint32_t i = 0; i < pages && there; ++i) {
    const PageId page = page_at(index, i);
    for_each_part(core_, op, i, [&](std::uint16_t kind, std::uint32_t part) {
      if (there && kind_needed(kinds[kind], i, pages)) {
        there = page != kNoPage && core_.catalog->part(core_.catalog->ref(page, part)).l2 ==
                                       L2State::resident;
      }
    });
  }
  if (!there) {
    ++core_.counters.pages_missed;
    ends_.finish(index, Code::not_found, Ack::done);
    return;
  }
  if (find_room(index, {}) && lease_pages(index)) {
    core_.counters.pages_hit_l2 += pages;
    ends_.finish(index, Code::ok, Ack::done);
  }
}

void Verbs::start_reload(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  Family& family = core_.family_of(op.session);
  const auto& kinds = family.descriptor.kinds;
  RoomAsked asked;
  bool there = true;
  for (std::uint32_t i = 0; i < pages && there; ++i) {
    const PageId page = page_at(index, i);
    for_each_part(core_, op, i, [&](std::uint16_t kind, std::uint32_t part) {
      if (!there || !kind_needed(kinds[kind], i, pages)) {
        return;
      }
      if (page == kNoPage) {
        there = false;
        return;
      }
      const Part& at = core_.catalog->part(core_.catalog->ref(page, part));
      const bool absent = at.l2 == L2State::absent;
      there = !absent || at.l3 >= L3State::written;
      asked.frames[kind] += absent ? 1U : 0U;
      asked.items += at.l2 == L2State::resident ? 0U : 1U;
    });
  }
  if (!there) {
    ++core_.counters.pages_missed;
    ends_.finish(index, Code::not_found, Ack::done);
    return;
  }
  if (!works_.pages.can_fit(family, asked.frames)) {
    ends_.finish(index, Code::no_space, Ack::done);
    return;
  }
  if (!find_room(index, asked)) {
    return;
  }
  // The lease holds the pages before room is made, so that none of them is evicted for it.
  if (!lease_pages(index)) {
    return;
  }
  if (!has_room(index, asked)) {
    ends_.finish(index, Code::busy, Ack::done);
    return;
  }
  op.from_disk.assign(pages, 0);
  const std::uint32_t use = op.use;
  op.waiting_parts = 1;  // kept open while the parts are started
  for (std::uint32_t i = 0; i < pages; ++i) {
    if (!start_reload_page(index, i) || !op.in_use || op.use != use || op.ending) {
      return;
    }
  }
  if (--op.waiting_parts == 0) {
    finish_reload(index);
  }
}

bool Verbs::start_reload_page(std::uint32_t index, std::uint32_t i) {
  Op& op = core_.ops.op(index);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  const PageId page = page_at(index, i);
  if (page == kNoPage) {
    return true;
  }
  std::vector<PartRef> fills;
  for_each_part(core_, op, i, [&](std::uint16_t kind, std::uint32_t part) {
    const PartRef ref = core_.catalog->ref(page, part);
    const Part& at = core_.catalog->part(ref);
    const bool needed = kind_needed(core_.family_of(ref).descriptor.kinds[kind], i, pages);
    if (!needed || at.l2 == L2State::resident) {
      return;
    }
    const std::uint32_t item_index = core_.ops.new_item(index);
    Item& item = core_.ops.item(item_index);
    item.part = ref;
    item.kind = kind;
    item.page_index = i;
    item.needs_resident = true;
    core_.ops.add_waiter(*core_.catalog, item_index);
    ++op.waiting_parts;
    if (at.l2 == L2State::absent) {
      fills.push_back(ref);
    }
    if (at.l2 == L2State::absent || at.reading) {
      op.pages_from_l3 += op.from_disk[i] == 0 ? 1U : 0U;
      op.from_disk[i] = 1;
    }
  });
  const std::uint32_t use = op.use;
  for (const PartRef ref : fills) {
    if (core_.catalog->part(ref).l2 == L2State::absent) {
      works_.fills.start(ref);
    }
    if (!op.in_use || op.use != use || op.ending) {
      return false;
    }
  }
  return true;
}

void Verbs::finish_reload(std::uint32_t index) {
  const Op& op = core_.ops.op(index);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  core_.counters.pages_hit_l3 += op.pages_from_l3;
  core_.counters.pages_hit_l2 += pages - op.pages_from_l3;
  ends_.finish(index, Code::ok, Ack::done);
}

void Verbs::start_release(std::uint32_t index) {
  const Op& op = core_.ops.op(index);
  const LeaseId lease{op.request.entry.lease};
  if (!holds(op.session, lease)) {
    ends_.finish(index, Code::not_found, Ack::done);
    return;
  }
  ends_.release_lease(lease);
  ends_.finish(index, Code::ok, Ack::done);
}

}  // namespace hc
