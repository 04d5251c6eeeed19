// SPDX-License-Identifier: Apache-2.0
// clients_reattach: a client whose session has broken comes back, and brings its leases.
#include <utility>

#include "tests/sim/clients.h"

namespace hc::sim {

// What it has released meanwhile is not in its list, and a list that names a lease of another
// client moves nothing.
bool Clients::reattach(std::uint32_t from, std::uint32_t to, Prng& prng) {
  SimSession& older = sessions_[from];
  SimSession& newer = sessions_[to];
  if (!attach(to, older.version, older.shard)) {
    return false;
  }
  begin_close(from);
  older.dead = false;
  std::vector<SimLease> kept;
  std::vector<SimLease> released;
  std::vector<LeaseId> list;
  for (SimLease& lease : older.leases) {
    const bool goes = prng.one_in(4);
    if (!goes) {
      list.push_back(LeaseId{lease.id});
    }
    (goes ? released : kept).push_back(std::move(lease));
  }
  for (const SimSession& other : sessions_) {
    if (&other != &older && !other.leases.empty()) {
      std::vector<LeaseId> forged = list;
      forged.push_back(LeaseId{other.leases.front().id});
      world_.laws.expect(!world_.engine->hand_over(older.id, newer.id, forged), 3,
                         "a lease of another client was handed over");
    }
  }
  world_.laws.expect(world_.engine->hand_over(older.id, newer.id, list), 5,
                     "leases did not go on in the next session of their client");
  world_.trace.add("hand over", from, to, kept.size(), released.size());
  world_.tally.handed_over += kept.size();
  newer.leases = std::move(kept);
  older.leases = std::move(released);
  for (const SimLease& lease : newer.leases) {
    check_lease(lease);
  }
  return true;
}

}  // namespace hc::sim
