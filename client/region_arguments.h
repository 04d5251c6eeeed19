// SPDX-License-Identifier: Apache-2.0
// region_arguments: judges a region and turns it into the message that registers it.
//
// Owner thread: any. Invariants: a plan names only bytes inside its memory file, for every row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/hicache.h"
#include "client/op_arguments.h"
#include "proto/handshake.h"
#include "proto/result.h"
#include "proto/space.h"

namespace hc {

struct RegionPlan {
  RegionRequest request{};
  std::vector<LayoutRequest> layouts;
  std::vector<LayoutRun> runs;
  std::vector<IpcHandle> events;     // cuda
  std::vector<RegionChunk> chunks;   // cuda: of memory that has no handle
  std::string reason;                // rank: why
  RegionShape shape;

  bool is_rank() const {
    return request.region_kind == static_cast<std::uint16_t>(RegionKind::rank);
  }
  bool is_cuda() const {
    return request.region_kind == static_cast<std::uint16_t>(RegionKind::cuda);
  }
  // The body of a register_region message.
  std::vector<std::uint8_t> encode() const;
};

Result<RegionPlan> check_region(const hicache_region* region, const SpaceDescriptor& space);
// All but what only the driver can say of the memory.
Result<RegionPlan> check_cuda_region(const hicache_cuda_region* region,
                                     const SpaceDescriptor& space);

}  // namespace hc
