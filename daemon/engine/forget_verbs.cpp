// SPDX-License-Identifier: Apache-2.0
// forget_verbs: free_object, the flush barrier, and cancel.
#include <algorithm>

#include "daemon/engine/verbs.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

// Every page is unreachable before this returns. A page that is not known may still have a row
// whose erase is not committed; it goes through a commit all the same.
void Verbs::start_free(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  const FreeToken token{index, op.use};
  const SpaceNo space = core_.sessions.find(op.session)->space;
  op.free_left = static_cast<std::uint32_t>(op.request.pages.size());
  const auto pages = op.request.pages;
  forget_waiting(space, pages);
  for (const PageEntry& entry : pages) {
    const PageId page = core_.catalog->find(space, entry.hash);
    if (page != kNoPage) {
      works_.forget.doom(page, Doom::free_object, token);
    } else {
      core_.notes->forget(space, entry.hash);  // what an evicted page has left in a slot
      works_.commit.add_erase(space, entry.hash, token);
    }
  }
  works_.commit.request_soon();
}

void Verbs::start_flush(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  ends_.stop_waiting(op);
  works_.admission.spill_all();
  op.barrier = last_barrier();
  op.losses_told = core_.sessions.find(op.session)->losses_told;
  ++flushes_open_;
  works_.commit.request_soon();
  check_flushes();
}

// A flush ends when every part that it covers has become durable or is lost, or when the index can
// take no row any more.
void Verbs::check_flushes() {
  const LruList& unsettled = core_.catalog->unsettled();
  const std::uint64_t oldest = unsettled.empty()
                                   ? core_.next_barrier
                                   : core_.catalog->part(PartRef{unsettled.oldest()}).barrier;
  flushes_open_ = 0;
  const std::vector<std::uint32_t> active = core_.ops.active();
  for (const std::uint32_t index : active) {
    const Op& op = core_.ops.op(index);
    if (!op.in_use || op.verb() != Verb::flush || op.ending) {
      continue;
    }
    const bool settled = op.barrier < oldest || HC_MUTANT(flush_does_not_wait);
    if (settled || works_.commit.index_dead()) {
      finish_flush(index, settled ? Code::ok : works_.commit.failure_code());
    } else {
      ++flushes_open_;
      works_.commit.request_soon();
    }
  }
}

void Verbs::finish_flush(std::uint32_t index, Code code) {
  const Op& op = core_.ops.op(index);
  const Code lost = core_.ledger.first_covered(op.losses_told, op.barrier);
  if (lost != Code::ok) {
    std::uint64_t& told = core_.sessions.find(op.session)->losses_told;
    told = std::max(told, core_.ledger.told_by(op.losses_told, op.barrier));
  }
  const bool failed = lost != Code::ok && !HC_MUTANT(flush_hides_losses);
  ends_.finish(index, failed ? lost : code, Ack::done);
}

void Verbs::start_cancel(std::uint32_t index) {
  const Op& op = core_.ops.op(index);
  const RequestEntry& entry = op.request.entry;
  const EngineSession* session = core_.sessions.find(op.session);
  const std::uint32_t target =
      entry.target_slot < kOpSlotsPerSession ? session->op_of_slot[entry.target_slot] : kNone32;
  const bool found = target != kNone32 && target != index &&
                     core_.ops.op(target).request.entry.op_sequence == entry.target_sequence;
  const std::uint32_t use = op.use;
  if (found) {
    ends_.end(target, Code::cancelled);
  }
  if (op.in_use && op.use == use && !op.ending) {  // the target's answer may have ended the session
    ends_.finish(index, found ? Code::ok : Code::not_found, Ack::done);
  }
}

}  // namespace hc
