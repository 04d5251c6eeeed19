// SPDX-License-Identifier: Apache-2.0
// rank_copy_reuse: what becomes of frames whose rank is killed in the middle of its copies, which
// go on after its death, as a device's do.
//
// Owner thread: the test's main thread.
#pragma once

#include <cstdint>
#include <string>

#include "proto/limits.h"

namespace hc::test {

// Longer than the copies go on after the death, and shorter than twice that.
inline constexpr int kRankGoneMs = 1000 + int{kGpuGraceMs};

struct Reuse {
  bool stored = false;
  std::uint64_t after_ms = 0;  // of the death
  std::uint64_t wrong_bytes = 0;
  std::uint64_t back_ms = 0;
  long outlived = 0;
};

// With a daemon that has the small bug (proto/test_hooks.h); "": none.
Reuse reuse_after_death(const std::string& mutant);

}  // namespace hc::test
