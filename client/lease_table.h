// SPDX-License-Identifier: Apache-2.0
// lease_table: the leases that this client was granted, and where their payloads lie.
//
// Owner thread: any, under the client's mutex. Invariants: a handle is never given twice in the
// life of a client, so a lease of an earlier daemon is never taken for one of this daemon. An
// ended lease keeps its mappings until the caller releases it: its bytes may be being read. Between
// two sessions nobody knows whether the leases go on: they are alive until the daemon says no.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "client/arena_view.h"
#include "proto/ids.h"
#include "proto/messages.h"

namespace hc {

struct Lease {
  std::uint32_t attachment = 0;
  bool alive = true;      // false once its session, or its space, has ended
  bool given_up = false;  // by its caller; the daemon is still to be told
  bool listed = false;    // in the attach that is under way
  LeaseId daemon_lease;
  std::uint32_t page_count = 0;
  std::uint32_t kind_count = 0;
  std::vector<FrameRef> frames;       // page * kind_count + kind
  std::shared_ptr<ArenaView> arenas;  // keeps the mappings
};

class LeaseTable {
 public:
  std::uint64_t add(Lease lease);
  // Nothing for a handle that was never given or has been released.
  const Lease* find(std::uint64_t handle) const;
  void erase(std::uint64_t handle) { leases_.erase(handle); }
  // Its caller is done with it: `find` knows it on, for the release that follows.
  void give_up(std::uint64_t handle);
  void end_all();
  // What is held, by the daemon's names, for the attach that comes. Whoever is given up before
  // that is not in it, and ends at the daemon.
  std::vector<LeaseId> list();
  // The daemon has kept all of the list.
  void keep_listed();
  // How often all leases have ended so far.
  std::uint64_t ends() const { return ends_; }
  std::size_t size() const { return leases_.size(); }

 private:
  std::unordered_map<std::uint64_t, Lease> leases_;
  std::uint64_t last_ = 0;
  std::uint64_t ends_ = 0;
};

}  // namespace hc
