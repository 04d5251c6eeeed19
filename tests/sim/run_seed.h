// SPDX-License-Identifier: Apache-2.0
// run_seed: one seed from start to digest.
#pragma once

#include <cstdint>

#include "tests/sim/world.h"

namespace hc::sim {

struct SeedOptions {
  std::uint64_t seed = 1;
  std::uint32_t operations = 2000;
  bool verbose = false;
};

struct SeedResult {
  std::uint64_t digest = 0;
  Tally tally;
};

// A broken law ends the process with status 2, after the report: the law, the last lines of the
// trace and the command that replays the seed.
SeedResult run_seed(const SeedOptions& options);

}  // namespace hc::sim
