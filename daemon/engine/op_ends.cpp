// SPDX-License-Identifier: Apache-2.0
// op_ends: completions, early ends, deadlines, leases of operations.
#include "daemon/engine/op_ends.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

CompletionEntry OpEnds::entry_of(const Op& op) const {
  const RequestEntry& request = op.request.entry;
  CompletionEntry entry{};
  entry.verb = request.verb;
  entry.op_slot = request.op_slot;
  entry.op_sequence = request.op_sequence;
  entry.client_data = request.client_data;
  entry.pages_from_l3 = op.pages_from_l3;
  entry.pages_stored = op.pages_stored;
  entry.bytes = op.bytes;
  entry.store_sequence = op.store_sequence;
  return entry;
}

void OpEnds::send(const Op& op, CompletionEntry entry) {
  Core& core = works_.core;
  std::vector<FrameRef> frames;
  if (entry.lease != 0) {
    frames.assign(op.request.pages.size() * kKindsMax, FrameRef{kNone32, 0, 0, 0});
    const EngineSession* session = core.sessions.find(op.session);
    const std::vector<PageId> leased = core.leases.pages(LeaseId{entry.lease});
    for (std::uint32_t i = 0; i < op.request.pages.size(); ++i) {
      const PageId page = core.catalog->find(session->space, op.request.pages[i].hash);
      // Forgotten meanwhile: its frames stay, but nothing names them any more. A page that was
      // stored anew under the same hash is not in the lease.
      if (page == kNoPage || std::find(leased.begin(), leased.end(), page) == leased.end()) {
        continue;
      }
      for_each_part(core, op, i, [&](std::uint16_t kind, std::uint32_t part) {
        const PartRef ref = core.catalog->ref(page, part);
        const Part& at = core.catalog->part(ref);
        if (at.l2 == L2State::resident) {
          frames[i * kKindsMax + kind] =
              FrameRef{at.frame.value, kind, 0, core.frames_of(ref).generation(at.frame)};
        }
      });
    }
  }
  core.sink.complete(op.session, entry, frames);
}

void OpEnds::report(std::uint32_t index, Ack ack) {
  Op& op = works_.core.ops.op(index);
  CompletionEntry entry = entry_of(op);
  entry.ack = static_cast<std::uint8_t>(ack);
  entry.code = static_cast<std::int32_t>(ack == Ack::late ? Code::timed_out : Code::ok);
  entry.page_count = static_cast<std::uint32_t>(op.request.pages.size());
  if (op.lease != kNoLease && ack != Ack::late && !op.lease_reported) {
    entry.lease = op.lease.value;
    op.lease_reported = true;
  }
  send(op, entry);
}

void OpEnds::report_prepared(std::uint32_t index, std::span<const FrameRef> frames) {
  const Op& op = works_.core.ops.op(index);
  CompletionEntry entry = entry_of(op);
  entry.ack = static_cast<std::uint8_t>(Ack::prepared);
  entry.page_count = static_cast<std::uint32_t>(op.request.pages.size());
  works_.core.sink.complete(op.session, entry, frames);
}

void OpEnds::count_end(const Op& op, Code code) {
  Counters& counters = works_.core.counters;
  counters.operations_timed_out += code == Code::timed_out ? 1U : 0U;
  counters.operations_cancelled += code == Code::cancelled ? 1U : 0U;
  counters.memory_faults += code == Code::memory_fault ? 1U : 0U;
  counters.operations_busy += code == Code::busy ? 1U : 0U;
  if (op.verb() == Verb::load) {
    counters.bytes_loaded += op.bytes;
  } else if (op.verb() == Verb::store) {
    counters.bytes_stored += op.bytes;
    counters.pages_stored += op.pages_stored;
    const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
    const bool kept = code == Code::ok || code == Code::not_durable;
    counters.pages_deduplicated += kept ? pages - op.pages_stored : 0;
  }
}

// The sink may end the operation's whole session before it returns: `ending` keeps that from
// finishing this one again.
void OpEnds::finish(std::uint32_t index, Code code, Ack ack) {
  Core& core = works_.core;
  Op& op = core.ops.op(index);
  HC_CHECK(op.in_use);
  op.ending = true;
  HC_CHECK(op.items.empty());
  HC_CHECK(op.copies == 0);
  stop_waiting(op);
  core.family_of(op.session).with_ranks -= std::exchange(op.rank_pages, 0);
  count_end(op, code);
  CompletionEntry entry = entry_of(op);
  entry.ack = static_cast<std::uint8_t>(ack);
  entry.code = static_cast<std::int32_t>(code);
  entry.terminal = 1;
  // A load that ran to its end speaks of the pages before the first miss, one that was ended early
  // of none: their copies may not have run.
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  const bool kept = code == Code::ok || code == Code::not_durable;
  const bool ran = kept || (code == Code::not_found && op.verb() == Verb::load);
  entry.page_count = ran ? std::min(op.miss_page, pages) : 0;
  entry.pages_from_l2 = op.verb() == Verb::store ? 0 : entry.page_count - std::min(
                            entry.page_count, op.pages_from_l3);
  if (op.lease != kNoLease && !op.lease_reported) {
    if (kept) {
      entry.lease = op.lease.value;
    } else {
      release_lease(op.lease);
    }
  }
  send(op, entry);
  drop_holds(index);
  EngineSession* session = core.sessions.find(op.session);
  HC_CHECK(session != nullptr && session->ops > 0);
  --session->ops;
  session->op_of_slot[op.request.entry.op_slot] = kNone32;
  if (op.verb() == Verb::store || op.verb() == Verb::load) {
    EngineRegion& region = session->regions[op.request.entry.region];
    HC_CHECK(region.users > 0);
    --region.users;
  }
  core.ops.close(index);
}

void OpEnds::stop_waiting(Op& op) {
  if (op.waits) {
    op.waits = false;
    works_.core.quotas.stop_waiting(*works_.core.sessions.find(op.session), op.request);
  }
}

void OpEnds::end(std::uint32_t index, Code code) {
  Core& core = works_.core;
  Op& op = core.ops.op(index);
  if (op.ending) {
    return;
  }
  op.ending = true;
  op.code = code;
  op.dropping = true;
  // What waits leaves first: a dropped copy may end its page, and one page may stand here twice.
  const std::vector<std::uint32_t> items = op.items;
  for (const std::uint32_t item : items) {
    if (core.ops.item(item).on_list) {
      free_item(item);
    }
  }
  works_.copies.drop_queued(index);
  // What is copying now can't be stopped. Others need not wait for it. They go on at once, which
  // may meet the end of another of these copies: its item is gone by then.
  const std::vector<std::uint32_t> running = op.items;
  for (const std::uint32_t at : running) {
    const Item& item = core.ops.item(at);
    if (item.in_use && item.op == index && item.role == ItemRole::filler) {
      works_.events->fill_abandoned(at);
    }
  }
  op.dropping = false;
  if (code == Code::timed_out || code == Code::cancelled) {
    report_late(index);
  }
  continue_end(index);
}

void OpEnds::report_late(std::uint32_t index) {
  Op& op = works_.core.ops.op(index);
  if (op.copies > 0 && (!op.late_sent || HC_MUTANT(late_told_twice))) {
    op.late_sent = true;
    ++works_.core.counters.operations_late;
    report(index, Ack::late);
  }
}

void OpEnds::continue_end(std::uint32_t index) {
  const Op& op = works_.core.ops.op(index);
  if (op.ending && !op.dropping && op.copies == 0 && op.items.empty()) {
    finish(index, op.code, Ack::done);
  }
}

void OpEnds::expire() {
  Core& core = works_.core;
  // Any answer may end other operations, so the list is taken first.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> expired;
  for (const std::uint32_t index : core.ops.active()) {
    const Op& op = core.ops.op(index);
    if (op.deadline <= core.now) {
      expired.emplace_back(index, op.use);
    }
  }
  for (const auto& [index, use] : expired) {
    const Op& op = core.ops.op(index);
    if (!op.in_use || op.use != use) {
      continue;
    }
    if (op.ending) {
      report_late(index);  // it failed before its deadline, and a copy still holds it open
    } else {
      end(index, Code::timed_out);
    }
  }
}

void OpEnds::refuse(SessionId session, const RequestEntry& request, Code code) {
  ++works_.core.counters.operations_refused;
  works_.core.counters.operations_busy += code == Code::busy ? 1U : 0U;
  CompletionEntry entry{};
  entry.verb = request.verb;
  entry.ack = static_cast<std::uint8_t>(Ack::done);
  entry.op_slot = request.op_slot;
  entry.op_sequence = request.op_sequence;
  entry.client_data = request.client_data;
  entry.code = static_cast<std::int32_t>(code);
  entry.terminal = 1;
  works_.core.sink.complete(session, entry, {});
}

void OpEnds::drop_hold(PageId page) {
  works_.pages.drop_hold(page);
  ++works_.core.moves;
  works_.forget.settle(page);
  works_.pages.end_if_empty(page);
}

void OpEnds::free_item(std::uint32_t index) {
  Core& core = works_.core;
  const Item item = core.ops.item(index);
  if (item.on_list) {
    core.ops.remove_waiter(*core.catalog, index);
  }
  core.ops.free_item(index);
  if (item.holds_page) {
    drop_hold(core.catalog->page_of(item.part));
  }
}

void OpEnds::release_lease(LeaseId lease) {
  Core& core = works_.core;
  const auto session_id = core.leases.session_of(lease);
  HC_CHECK(session_id.has_value());
  EngineSession* session = core.sessions.find(*session_id);
  HC_CHECK(session != nullptr && session->leases > 0);
  --session->leases;
  core.quotas.note_lease(*session, false);
  for (const LeasedPage& leased : core.leases.close(lease)) {
    core.quotas.unlease(*session, leased);
    drop_hold(leased.page);
  }
}

void OpEnds::unhold(std::uint32_t index) {
  const std::vector<PageId> held = std::move(works_.core.ops.op(index).held);
  works_.core.ops.op(index).held.clear();
  for (const PageId page : held) {
    works_.pages.drop_hold(page);
    works_.forget.settle(page);
    works_.pages.end_if_empty(page);
  }
}

void OpEnds::drop_holds(std::uint32_t index) {
  Op& op = works_.core.ops.op(index);
  const std::vector<PageId> held = std::move(op.held);
  op.held.clear();
  for (const PageId page : held) {
    drop_hold(page);
  }
}

}  // namespace hc
