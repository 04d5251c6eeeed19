// SPDX-License-Identifier: Apache-2.0
// verbs: dispatch of requests to their verb, and of part events to the items that wait.
#include "daemon/engine/verbs.h"

#include <algorithm>

#include "proto/check.h"

namespace hc {

Verbs::Verbs(Works& works) : works_(works), core_(works.core), ends_(works) {
  works_.events = this;
  works_.ends = &ends_;
}

void Verbs::submit(SessionId session_id, OpRequest request) {
  EngineSession* session = core_.sessions.find(session_id);
  HC_CHECK(session != nullptr);
  const RequestEntry& entry = request.entry;
  HC_CHECK(entry.verb < kVerbs);
  HC_CHECK(entry.op_slot < kOpSlotsPerSession);
  HC_CHECK(session->op_of_slot[entry.op_slot] == kNone32);
  // A release came before the switch, whatever the daemon has read first.
  const bool is_release = static_cast<Verb>(entry.verb) == Verb::release;
  if (session->ended && !(session->switches && is_release)) {
    ends_.refuse(session_id, entry, Code::cancelled);
    return;
  }
  const std::uint32_t index =
      core_.quotas.may_open_op(*session) ? core_.ops.open(session_id) : kNone32;
  if (index == kNone32) {
    ends_.refuse(session_id, entry, Code::busy);
    return;
  }
  Op& op = core_.ops.op(index);
  op.deadline = core_.now + std::int64_t{entry.deadline_ms} * kNsPerMs;
  op.request = std::move(request);
  ++session->ops;
  session->op_of_slot[op.request.entry.op_slot] = index;
  ++core_.counters.operations;
  if (op.verb() == Verb::store || op.verb() == Verb::load) {
    ++session->regions[op.request.entry.region].users;
  }
  session->quota.group == nullptr ? start(index) : begin(index);
}

void Verbs::start(std::uint32_t op) {
  switch (core_.ops.op(op).verb()) {
    case Verb::store: start_store(op); return;
    case Verb::reload: start_reload(op); return;
    case Verb::load: start_load(op); return;
    case Verb::pin: start_pin(op); return;
    case Verb::release: start_release(op); return;
    case Verb::free_object: start_free(op); return;
    case Verb::flush: start_flush(op); return;
    case Verb::cancel: start_cancel(op); return;
    case Verb::copied: break;  // no operation
    case Verb::none: break;
  }
  HC_UNREACHABLE();
}

void Verbs::turn() {
  ends_.expire();
  turn_waiting();
  std::deque<std::pair<std::uint32_t, std::uint32_t>> stalled;
  stalled.swap(stalled_loads_);
  for (const auto& [index, use] : stalled) {
    Op& op = core_.ops.op(index);
    if (op.in_use && op.use == use && op.stalled) {
      op.stalled = false;
      advance_load(index);
    }
  }
  if (flushes_open_ > 0) {
    check_flushes();
  }
}

PageId Verbs::page_at(std::uint32_t op, std::uint32_t index) {
  const Op& at = core_.ops.op(op);
  return core_.catalog->find(core_.sessions.find(at.session)->space,
                             at.request.pages[index].hash);
}

void Verbs::touch(PageId page) {
  if (works_.pages.touch(page)) {
    works_.commit.mark_dirty(page);
  }
}

void Verbs::note_use(std::uint32_t op, PageId page) {
  if (works_.admission.use(core_.ops.op(op), page)) {
    works_.admission.spill(page);
  }
}

void Verbs::end_session_ops(SessionId session_id) {
  EngineSession* session = core_.sessions.find(session_id);
  HC_CHECK(session != nullptr);
  session->ended = true;
  for (std::uint32_t slot = 0; slot < kOpSlotsPerSession; ++slot) {
    const std::uint32_t op = session->op_of_slot[slot];
    if (op != kNone32) {
      ends_.end(op, Code::cancelled);
    }
  }
}

// The list changes while its items go on (an operation that ends takes all its items off), so
// each item of the snapshot is checked to be still the same one.
template <typename Fn>
void Verbs::for_each_waiter(PartRef ref, Fn&& fn) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> waiters;
  for (std::uint32_t at = core_.catalog->part(ref).first_waiter; at != kNone32;
       at = core_.ops.item(at).next) {
    waiters.emplace_back(at, core_.ops.item(at).use);
  }
  std::reverse(waiters.begin(), waiters.end());  // first come, first served
  for (const auto& [index, use] : waiters) {
    const Item& item = core_.ops.item(index);
    if (item.in_use && item.use == use && item.on_list) {
      fn(index);
    }
  }
}

void Verbs::free_if_done(std::uint32_t index) {
  const Item& item = core_.ops.item(index);
  if (item.needs_resident || item.needs_written || item.needs_durable) {
    return;
  }
  if (item.on_list) {
    core_.ops.remove_waiter(*core_.catalog, index);
  }
  core_.ops.free_item(index);
}

void Verbs::part_resident(PartRef ref) {
  for_each_waiter(ref, [&](std::uint32_t index) {
    Item& item = core_.ops.item(index);
    if (!item.needs_resident) {
      return;
    }
    const std::uint32_t op = item.op;
    const Verb verb = core_.ops.op(op).verb();
    if (verb == Verb::store) {
      store_reached(index, Ack::resident);
      return;
    }
    item.needs_resident = false;
    if (verb == Verb::load) {
      core_.ops.remove_waiter(*core_.catalog, index);
      item.role = ItemRole::copier;
      works_.pages.busy(core_.catalog->page_of(ref));
      works_.copies.copy(index);
      return;
    }
    HC_CHECK(verb == Verb::reload);
    Op& reload = core_.ops.op(op);
    reload.bytes += reload.from_disk[item.page_index] != 0 ? core_.payload_bytes(ref) : 0;
    free_if_done(index);
    HC_CHECK(reload.waiting_parts > 0);
    if (--reload.waiting_parts == 0) {
      finish_reload(op);
    }
  });
}

void Verbs::part_written(PartRef ref) {
  for_each_waiter(ref, [&](std::uint32_t item) { store_reached(item, Ack::written); });
}

void Verbs::part_durable(PartRef ref) {
  for_each_waiter(ref, [&](std::uint32_t item) { store_reached(item, Ack::durable); });
}

void Verbs::part_fill_failed(PartRef ref, Code code) {
  // Still filling: the device does not answer a read in time. Readers are told; a store waits for
  // the end of the read, which brings the bytes or leaves the part to it.
  const bool overdue = core_.catalog->part(ref).l2 == L2State::filling;
  if (!overdue && promote_heir(ref)) {
    return;
  }
  if (!overdue) {
    works_.pages.stop_unsettled(ref);
    core_.catalog->part(ref).spill_wanted = false;
  }
  for_each_waiter(ref, [&](std::uint32_t index) {
    const Item& item = core_.ops.item(index);
    const bool waits_on = overdue && core_.ops.op(item.op).verb() == Verb::store;
    if (!item.needs_resident || waits_on) {
      return;
    }
    const std::uint32_t op = item.op;
    const std::uint32_t page_index = item.page_index;
    if (core_.ops.op(op).verb() == Verb::load) {
      ends_.free_item(index);
      load_miss(op, page_index);
      return;
    }
    // A store is here only if the page was forgotten while it waited.
    const bool store = core_.ops.op(op).verb() == Verb::store;
    if (!store) {
      ++core_.counters.pages_missed;
    }
    ends_.end(op, store ? Code::retry : code);
  });
}

void Verbs::part_spill_failed(PartRef ref, Code code) {
  for_each_waiter(ref, [&](std::uint32_t index) {
    const Item& item = core_.ops.item(index);
    // Who waits for the bytes as well goes on with them: a lost copy is made anew.
    const bool made_anew =
        item.needs_resident && core_.catalog->part(ref).l3 == L3State::absent;
    if ((item.needs_written || item.needs_durable) && !made_anew) {
      ends_.end(item.op, code);
    }
  });
}

void Verbs::copy_done(std::uint32_t item, Code code, std::uint32_t crc) {
  if (core_.ops.item(item).role == ItemRole::filler) {
    store_copy_done(item, code, crc);
  } else {
    load_copy_done(item, code);
  }
}

void Verbs::freed(FreeToken token) {
  if (token.id == kNone32) {
    return;
  }
  if (token.id == kOrderToken) {
    ++orders_freed_;
    return;
  }
  Op& op = core_.ops.op(token.id);
  if (!op.in_use || op.use != token.use) {
    return;  // it was cancelled or timed out; the pages are gone all the same
  }
  HC_CHECK(op.free_left > 0);
  if (--op.free_left == 0 && !op.ending) {
    ends_.finish(token.id, Code::ok, Ack::done);
  }
}

}  // namespace hc
