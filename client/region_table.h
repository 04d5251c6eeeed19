// SPDX-License-Identifier: Apache-2.0
// region_table: the regions of a client by number, and how far the daemon knows them.
//
// Owner thread: any, under the client's mutex. Invariants: only `registered` regions that nobody
// has given up may be named by operations; they and the failed ones are registered again at the
// next attach; every state but `free` and `unregistering` has `known`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/region_arguments.h"
#include "proto/limits.h"
#include "shm/gpu/cuda_mapping.h"
#include "shm/unique_fd.h"

namespace hc {

// failed: the present daemon has refused it at the attach and does not have it.
enum class RegionState : std::uint8_t { free, registering, registered, unregistering, failed };

// Never changed after it was made, so that the background thread can send it without the mutex.
struct KnownRegion {
  RegionPlan plan;
  std::vector<UniqueFd> fds;  // the memory file of host memory, or one of each chunk
  CudaMappingPtr mapping{};   // of device memory that we copy ourselves

  std::vector<int> raw_fds() const {
    std::vector<int> out;
    for (const UniqueFd& fd : fds) {
      out.push_back(fd.get());
    }
    return out;
  }
};

struct RegionSlot {
  RegionState state = RegionState::free;
  bool given_up = false;  // the caller of its registration has left: it is to be taken back
  std::shared_ptr<const KnownRegion> known;
  std::string refusal;  // failed: what the daemon said
};

class RegionTable {
 public:
  RegionSlot& at(std::uint32_t region) { return slots_.at(region); }
  const RegionSlot& at(std::uint32_t region) const { return slots_.at(region); }

  // What the next attach registers again.
  std::vector<std::shared_ptr<const KnownRegion>> to_register() const {
    std::vector<std::shared_ptr<const KnownRegion>> out;
    for (const RegionSlot& slot : slots_) {
      if (is_kept(slot)) {
        out.push_back(slot.known);
      }
    }
    return out;
  }

  // The session is over: what was on its way in or out, or given up, is gone.
  void forget_unsettled() {
    for (RegionSlot& slot : slots_) {
      if (!is_kept(slot)) {
        slot = RegionSlot{};
      }
    }
  }

 private:
  static bool is_kept(const RegionSlot& slot) {
    const bool settled = slot.state == RegionState::registered || slot.state == RegionState::failed;
    return settled && !slot.given_up;
  }

  std::array<RegionSlot, kRegionsPerSession> slots_;
};

}  // namespace hc
