// SPDX-License-Identifier: Apache-2.0
// quota_gate: operations of sessions with quota wait for room, first come first served in each
// session. They hold nothing meanwhile and have touched no client memory.
//
// One that lacks frames, records or items keeps others from beginning to take any (a store or a
// reload is busy, a load stalls), or it would never find enough at once. One that only waits for
// its group keeps nobody. A flush goes behind the waiting stores of its session; a waiting store
// whose page is forgotten is answered retry.
#include <algorithm>

#include "daemon/engine/verbs.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// Whatever what waits for may become free without notice.
constexpr std::int64_t kRetryNs = 100 * kNsPerMs;

bool wants_lease(const Op& op) {
  return op.verb() == Verb::reload || op.verb() == Verb::pin ||
         (op.verb() == Verb::store && op.has_flag(kFlagKeepLease));
}

}  // namespace

// Of a session with quota. What is beyond it is the session's own fault, and answered at once. A
// flush goes behind the stores that came before it.
void Verbs::begin(std::uint32_t index) {
  const Op& op = core_.ops.op(index);
  const EngineSession& session = *core_.sessions.find(op.session);
  const bool leases = wants_lease(op);
  if (leases && !core_.quotas.within_quota(session, op.request)) {
    ++core_.counters.quota_refused;
    ends_.finish(index, Code::no_space, Ack::done);
    return;
  }
  const bool queues = leases || op.verb() == Verb::flush;
  const bool is_behind = session.quota.waiting > 0 ||
                         (leases && core_.quotas.is_wanted(core_.family_of(op.session)));
  queues && is_behind ? wait_for_room(index) : start(index);
}

// Makes room. The pages of the operation are held, so that none of them is evicted for it.
bool Verbs::has_room(std::uint32_t index, const RoomAsked& asked) {
  Family& family = core_.family_of(core_.ops.op(index).session);
  const auto ensure_frames = [&] {
    bool fits = true;
    for (std::uint16_t kind = 0; kind < family.frames.size(); ++kind) {
      fits = fits && works_.pages.ensure_frames(family, kind, asked.frames[kind]);
    }
    return fits;
  };
  bool room = asked.items <= core_.ops.items_free() && ensure_frames();
  // Making room for records may end operations, whose heirs take frames: these are looked at again.
  if (asked.new_pages > 0) {
    room = room && works_.pages.ensure_records(family, asked.new_pages) && ensure_frames();
  }
  return room;
}

// False: the operation has been answered, or waits. Without quota nobody gets what is reserved, or
// what an operation of a quota waits for.
bool Verbs::find_room(std::uint32_t index, const RoomAsked& asked) {
  Op& op = core_.ops.op(index);
  EngineSession& session = *core_.sessions.find(op.session);
  Family& family = core_.family_of(op.session);
  const bool leases = wants_lease(op);
  if (session.quota.group == nullptr || !leases) {
    const bool may = !core_.quotas.is_wanted(family) &&
                     (!leases || core_.quotas.leaves_reserved(session, op.request)) &&
                     count_rank_pages(index);
    if (!may) {
      ends_.finish(index, Code::busy, Ack::done);
    }
    return may;
  }
  bool room = core_.quotas.group_fits(session, op.request);
  if (room) {
    const bool holds = op.held.empty();  // a store holds its pages already
    for (std::uint32_t i = 0; holds && i < op.request.pages.size(); ++i) {
      if (const PageId page = page_at(index, i); page != kNoPage) {
        works_.pages.hold(page);
        op.held.push_back(page);
      }
    }
    room = has_room(index, asked);
    if (!room && asked.items > core_.ops.items_free()) {
      core_.quotas.want_items();
    } else if (!room) {
      family.room_wanted = true;
    }
    if (holds && room) {
      ends_.unhold(index);
    }
  }
  if (!room) {
    ends_.unhold(index);
    HC_MUTANT(quota_refused_busy) ? ends_.finish(index, Code::busy, Ack::done)
                                  : wait_for_room(index);
    return false;
  }
  ends_.stop_waiting(op);
  return true;
}

// A rank holds frames as long as it likes, and so as leases do. False: they are reserved.
bool Verbs::count_rank_pages(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  const EngineSession& session = *core_.sessions.find(op.session);
  const bool copies = op.verb() == Verb::store || op.verb() == Verb::load;
  if (!copies || !session.regions[op.request.entry.region].by_rank) {
    return true;
  }
  if (!core_.quotas.leaves_reserved(session, op.request)) {
    return false;
  }
  op.rank_pages = static_cast<std::uint32_t>(op.request.pages.size());
  core_.family_of(op.session).with_ranks += op.rank_pages;
  return true;
}

void Verbs::wait_for_room(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  if (op.waits) {
    return;
  }
  op.waits = true;
  core_.quotas.wait(*core_.sessions.find(op.session), op.request);
  ++core_.counters.quota_waits;
  waiting_.emplace_back(index, op.use);
}

// True: one had been there that waits no more.
bool Verbs::drop_idle_waits() {
  return std::erase_if(waiting_, [&](const auto& at) {
           const Op& op = core_.ops.op(at.first);
           return !op.in_use || op.use != at.second || !op.waits;
         }) > 0;
}

// One that finds no room keeps back the others of its session, and, if it is memory that it lacks,
// those of its family.
void Verbs::turn_waiting() {
  if (waiting_.empty()) {
    return;
  }
  const bool moved = drop_idle_waits() || core_.progress() != waited_at_;
  if (!moved && core_.now < retry_at_) {
    return;
  }
  waited_at_ = core_.progress();
  retry_at_ = core_.now + kRetryNs;
  core_.quotas.stop_wanting();
  std::vector<SessionId> behind;
  const auto round = waiting_;  // an answer may bring others
  for (const auto& [index, use] : round) {
    const Op& op = core_.ops.op(index);
    if (!op.in_use || op.use != use || !op.waits) {
      continue;
    }
    const SessionId session = op.session;
    const bool is_behind =
        std::find(behind.begin(), behind.end(), session) != behind.end() ||
        (wants_lease(op) && core_.quotas.is_wanted(core_.family_of(session)));
    if (!is_behind) {
      start(index);
    }
    if (op.in_use && op.use == use && op.waits) {
      behind.push_back(session);
    }
  }
  drop_idle_waits();
  if (waiting_.empty()) {
    core_.quotas.stop_wanting();
  }
}

Instant Verbs::next_retry() const {
  return waiting_.empty() ? core_.now + 1000 * kNsPerMs : retry_at_;
}

void Verbs::forget_waiting(std::optional<SpaceNo> space, std::span<const PageEntry> pages) {
  const auto waiting = waiting_;
  for (const auto& [index, use] : waiting) {
    const Op& op = core_.ops.op(index);
    if (!op.in_use || op.use != use || !op.waits || op.verb() != Verb::store) {
      continue;
    }
    const auto is_named = [&](const PageEntry& mine) {
      return std::any_of(pages.begin(), pages.end(),
                         [&](const PageEntry& page) { return page.hash == mine.hash; });
    };
    const bool named = pages.empty() || std::any_of(op.request.pages.begin(),
                                                    op.request.pages.end(), is_named);
    if ((!space || core_.sessions.find(op.session)->space == *space) && named) {
      ends_.end(index, Code::retry);
    }
  }
}

}  // namespace hc
