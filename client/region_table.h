// SPDX-License-Identifier: Apache-2.0
// region_table: the regions of a client by number, and how far the daemon knows them.
//
// Owner thread: any, under the client's mutex. Invariants: a number is free only when no daemon
// has the region or will get it; only `registered` regions may be named by operations, and only
// they are registered again after a reattach.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/region_arguments.h"
#include "proto/limits.h"
#include "shm/unique_fd.h"

namespace hc {

enum class RegionState : std::uint8_t { free, registering, registered, unregistering };

// Never changed after it was made, so that the background thread can send it without the mutex.
struct KnownRegion {
  RegionPlan plan;
  UniqueFd fd;
};

struct RegionSlot {
  RegionState state = RegionState::free;
  bool given_up = false;  // registering, but its caller has left: unregister when it is answered
  std::shared_ptr<const KnownRegion> known;
};

class RegionTable {
 public:
  RegionSlot& at(std::uint32_t region) { return slots_.at(region); }
  const RegionSlot& at(std::uint32_t region) const { return slots_.at(region); }

  std::vector<std::shared_ptr<const KnownRegion>> registered() const {
    std::vector<std::shared_ptr<const KnownRegion>> out;
    for (const RegionSlot& slot : slots_) {
      if (slot.state == RegionState::registered) {
        out.push_back(slot.known);
      }
    }
    return out;
  }

  // The session is over: what was on its way in or out is gone.
  void forget_unsettled() {
    for (RegionSlot& slot : slots_) {
      if (slot.state != RegionState::registered) {
        slot = RegionSlot{};
      }
    }
  }

 private:
  std::array<RegionSlot, kRegionsPerSession> slots_;
};

}  // namespace hc
