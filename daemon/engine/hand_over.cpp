// SPDX-License-Identifier: Apache-2.0
// hand_over: the leases of a session that has ended become those of the one that follows it.
//
// In one step of the reactor: pages, frames and records stay as they are, only the counts of the
// two sessions change. The quota is the group's, so it moves with them.
#include <algorithm>

#include "daemon/engine/verbs.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

// Whether its client has been told of the lease. Before that it belongs to the operation that asked
// for it, which may still fail and end it.
bool Verbs::holds(SessionId id, LeaseId lease) {
  const auto holder = core_.leases.session_of(lease);
  if (!holder || *holder != id) {
    return false;
  }
  const EngineSession& session = *core_.sessions.find(id);
  return std::none_of(session.op_of_slot.begin(), session.op_of_slot.end(), [&](std::uint32_t at) {
    return at != kNone32 && core_.ops.op(at).lease == lease && !core_.ops.op(at).lease_reported;
  });
}

void Verbs::move_lease(SessionId from, SessionId to, LeaseId lease) {
  EngineSession& older = *core_.sessions.find(from);
  EngineSession& newer = *core_.sessions.find(to);
  HC_CHECK(older.leases > 0);
  core_.leases.give(lease, to);
  --older.leases;
  ++newer.leases;
  core_.quotas.note_lease(older, false);
  core_.quotas.note_lease(newer, true);
  for (const LeasedPage& leased : core_.leases.owned_pages(lease)) {
    if (!HC_MUTANT(handed_over_lease_counted_twice)) {
      core_.quotas.unlease(older, leased);
    }
    core_.quotas.lease(newer, leased);
  }
}

// Of another space the pages mean something else, and of another quota the newer session has no
// records for them.
bool Verbs::hand_over(SessionId from, SessionId to, std::span<const LeaseId> listed) {
  const EngineSession* older = core_.sessions.find(from);
  const EngineSession* newer = core_.sessions.find(to);
  HC_CHECK(older != nullptr && older->ended && newer != nullptr);
  HC_CHECK(from != to && newer->leases == 0);
  const bool fits = older->space == newer->space && older->shard == newer->shard &&
                    older->quota.group == newer->quota.group &&
                    older->quota.leases_max == newer->quota.leases_max;
  const bool may = fits && std::all_of(listed.begin(), listed.end(),
                                       [&](LeaseId lease) { return holds(from, lease); });
  std::vector<LeaseId> leases(listed.begin(), listed.end());
  if (HC_MUTANT(unlisted_lease_handed_over)) {
    leases = core_.leases.leases_of(from);
  }
  for (const LeaseId lease : leases) {
    if (may && core_.leases.session_of(lease) == from) {  // else it is listed twice
      move_lease(from, to, lease);
    }
  }
  return may;
}

}  // namespace hc
