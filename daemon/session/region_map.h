// SPDX-License-Identifier: Apache-2.0
// region_map: client memory as the daemon maps it, and the judging of a registration.
//
// The client can truncate its memory file at any time, so nothing but the copier (with its guard
// against SIGBUS) reads or writes through the mapping.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/engine/sessions.h"
#include "daemon/gpu/device_memory.h"
#include "proto/handshake.h"
#include "proto/result.h"
#include "proto/space.h"
#include "shm/region.h"
#include "shm/unique_fd.h"

namespace hc {

struct ClientRegion {
  std::optional<Region> map;            // of host memory
  MappingId mapping = kHostMapping;     // of device memory
};

struct RegionBody {
  RegionRequest request{};
  std::vector<LayoutRequest> layouts;
  std::vector<LayoutRun> runs;
  std::vector<IpcHandle> events;
  std::vector<RegionChunk> chunks;
  std::string reason;                   // rank: why

  // Descriptors that its message must bring.
  std::size_t fd_count() const {
    return is_cuda() || is_rank() ? request.chunk_count : std::size_t{1};
  }
  bool is_rank() const {
    return request.region_kind == static_cast<std::uint16_t>(RegionKind::rank);
  }
  bool is_cuda() const {
    return request.region_kind == static_cast<std::uint16_t>(RegionKind::cuda);
  }
};

// Parses the body of register_region. Errors: bad_argument, with field, value and range.
Result<RegionBody> parse_region(std::span<const std::uint8_t> body);
// Judges it against the space: kinds, run sums, and that every row lies inside the region.
Result<EngineRegion> judge_region(const RegionBody& body, const SpaceDescriptor& space);
// Maps the region of `file`, which stays the caller's. Errors: refused (no memory file, or it is
// too small), no_space.
Result<ClientRegion> map_region(const RegionRequest& request, const UniqueFd& file);

}  // namespace hc
