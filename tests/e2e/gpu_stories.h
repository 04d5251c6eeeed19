// SPDX-License-Identifier: Apache-2.0
// gpu_stories: what a rank does with its device memory, each on drivers that bring a certain small
// bug of the daemon's copies to light.
//
// Owner thread: the test's main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "e2e/gpu_scene.h"

namespace hc::test {


struct Story {
  std::string name;
  std::string daemon;  // plans of the stand-in
  std::string rank;
  std::function<int(const GpuScene&, RankOptions)> tell;  // 0: every byte was right
  std::vector<std::string> mutants;                       // that it sees
  std::uint64_t l2_bytes = 8U << 20;
};

const std::vector<Story>& gpu_stories();

// What `tell` answered, with a daemon that has the small bug (proto/test_hooks.h); "": none.
int told(const Story& story, const std::string& mutant);

}  // namespace hc::test
