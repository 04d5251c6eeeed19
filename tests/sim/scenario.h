// SPDX-License-Identifier: Apache-2.0
// scenario: what a seed simulates: the families and spaces, the sizes of L2 and of the volumes, the
// pages, the limits.
// Everything is small, so that eviction, busy and no_space happen all the time.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/core.h"
#include "tests/sim/content.h"
#include "tests/sim/prng.h"

namespace hc::sim {

inline constexpr std::uint32_t kVersions = 3;  // weight versions of each family

struct Scenario {
  std::vector<SpaceDescriptor> spaces;  // one of each family, without weight version
  std::uint16_t shards_on_node = 0;
  std::uint16_t first_shard = 0;     // the node's ranks are of shards first .. first + count - 1
  std::uint16_t shard_count = 1;
  EngineOptions options;
  Universe universe;
  std::uint32_t pages_per_op_max = 8;
  std::uint32_t region_rows = 24;
  std::uint32_t copies_max = kCopyJobsMax;
  // Versions count on through the families.
  std::uint32_t versions() const { return kVersions * static_cast<std::uint32_t>(spaces.size()); }
  const SpaceDescriptor& space_of(std::uint32_t version) const {
    return spaces[version / kVersions];
  }
  SpaceDescriptor with_version(std::uint32_t version) const;
  // The least budget of a volume with which every family still starts.
  std::uint64_t least_volume_bytes() const;
};

// `family` tells families of one seed apart.
Scenario draw_scenario(Prng& prng, std::uint32_t family, bool big_payloads);

}  // namespace hc::sim
