// SPDX-License-Identifier: Apache-2.0
// store_bench: a virtual disk without faults, for tests of the store.
#pragma once

#include <algorithm>
#include <string>

#include "support/catch.h"
#include "tests/sim/sim_disk.h"

namespace hc::test {

struct StoreBench {
  sim::SimClock clock;
  sim::Trace trace{clock};
  sim::Laws laws{[](int law, const std::string& what) {
    FAIL("law " << law << " broken: " << what);
  }};
  sim::SimDisk disk{clock, trace, laws, sim::Prng(7)};

  // Lets the next completion come due.
  void step() {
    const Instant due = disk.next_due();
    if (due != sim::SimClock::kNever) {
      clock.advance_to(due);
    }
  }
};

inline Uuid test_uuid() {
  Uuid uuid{};
  uuid[0] = 0x42;
  return uuid;
}

}  // namespace hc::test
