// SPDX-License-Identifier: Apache-2.0
// world: everything one seed simulates: the doubles, the model, the engine of this life.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/engine/engine.h"
#include "tests/sim/model.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_copier.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_index.h"
#include "tests/sim/trace.h"

namespace hc::sim {

// What a run has seen, to show that it saw anything; goes to the report of a seed.
struct Tally {
  std::uint64_t operations = 0;
  std::uint64_t crashes = 0;
  std::uint64_t hits_l2 = 0;
  std::uint64_t hits_l3 = 0;
  std::uint64_t misses = 0;
  std::uint64_t evicted = 0;
  std::uint64_t late = 0;
  std::uint64_t busy = 0;
  std::uint64_t faults = 0;
  std::uint64_t recovered = 0;   // durable parts found again after a crash
  std::uint64_t excused = 0;     // durable parts lost because their slot was damaged
  std::uint64_t not_durable = 0; // stores whose pages the spill policy held back
  std::uint64_t promoted = 0;    // parts that a waiting store filled after another had failed
  std::uint64_t audited = 0;     // pages read back and compared in audits
  std::uint64_t quota_waits = 0; // operations within a quota that waited for room
  std::uint64_t quota_leases = 0;
  std::uint64_t steps_moved = 0; // preallocation steps that were given back
  std::uint64_t rank_batches = 0; // frames that ranks copied themselves
  std::uint64_t handed_over = 0;  // leases that went on in the next session of their client
  std::uint64_t awaits = 0;       // operations that had to wait for their clients' own work
};

struct World {
  World(std::uint64_t seed, Laws::Handler handler)
      : prng(seed),
        trace(clock),
        laws(std::move(handler)),
        disk(clock, trace, laws, Prng(seed).stream(1)),
        index(clock, trace, laws, Prng(seed).stream(2)),
        copier(clock, trace, laws, Prng(seed).stream(3)),
        ranks(clock, trace, laws, Prng(seed).stream(8)),
        gpu_prng(Prng(seed).stream(9)) {}

  void set_plan(const FaultPlan& new_plan) {
    plan = new_plan;
    disk.set_plan(plan);
    index.set_plan(plan);
    copier.set_plan(plan);
    ranks.set_plan(plan);
  }

  Core& core() { return engine->core(); }
  // Transfers that the kernel had refused by now, or the device had not answered in time.
  std::uint64_t unanswered() {
    return disk.transients() + core().io.unanswered() + core().counters.read_failures +
           core().counters.parts_unreachable;
  }
  bool has_catalog() { return engine != nullptr && engine->core().catalog != nullptr; }
  // The number in "w7"; every space of the simulation is named so.
  // A space that has been dropped since the last look keeps its own.
  std::uint32_t version_of(SpaceNo space) {
    if (const Space* known = core().spaces->find(space)) {
      const std::string& name = known->descriptor.weight_version;
      versions[space.value] = static_cast<std::uint32_t>(std::stoul(name.substr(1)));
    }
    return versions[space.value];
  }
  ContentKey content_key(std::uint32_t version, std::uint32_t page, std::uint32_t part) {
    const PartSpec spec = parts_of(scenario.space_of(version))[part];
    return {version, page, spec.kind, spec.shard};
  }

  Prng prng;
  SimClock clock;
  Trace trace;
  Laws laws;
  FaultPlan plan;
  SimDisk disk;
  SimIndex index;
  SimCopier copier;
  SimCopier ranks;                    // of ranks that copy themselves
  Prng gpu_prng;
  bool gpus = false;                  // some sessions have memory of GPUs
  bool auditing = false;              // those that read everything back have not
  Scenario scenario;
  Model model;
  Tally tally;
  std::unique_ptr<Engine> engine;
  // Parts that became neither durable nor forgotten, in the order in which Watch saw it.
  std::vector<std::uint64_t> losses;  // their barriers
  bool told_by_marks = false;         // the last start found an old copy of the index, or none
  std::map<std::uint32_t, std::uint32_t> versions;  // by SpaceNo, as seen last
};

}  // namespace hc::sim
