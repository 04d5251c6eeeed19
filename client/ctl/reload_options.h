// SPDX-License-Identifier: Apache-2.0
// reload_options: what `bench replay --reload` is asked for beside the trace and the tiers.
//
// As the command line gives it. Empty texts and zeros mean "not given".
#pragma once

#include <cstdint>
#include <string>

namespace hc {

struct ReloadOptions {
  bool enabled = false;
  std::string agreement = "auto";
  std::string chaos;
  std::uint64_t l1_pages = 0;
  std::uint64_t quota_pages = 0;
  std::uint64_t concurrency = 0;
  std::uint64_t ttl_ms = 0;
  std::uint64_t pages_min = 0;
  std::uint64_t seed = 1;
  double rate = 0;        // requests a second
  double time_scale = 0;  // of the trace's timestamps: 2 is twice as fast
};

}  // namespace hc
