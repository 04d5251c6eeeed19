// SPDX-License-Identifier: Apache-2.0
// client_rank: an operation whose bytes this process copies itself.
//
// Plain values that never change; the operation's record keeps them until its end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/region_table.h"

namespace hc {

struct RankOp {
  std::shared_ptr<const KnownRegion> region;
  std::vector<std::uint32_t> rows;  // by page
  bool to_device = false;           // a load
  bool awaits_event = false;        // HICACHE_AFTER_STREAM: the event of the operation's slot
};

}  // namespace hc
