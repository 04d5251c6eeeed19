// SPDX-License-Identifier: Apache-2.0
// arena_view: the arenas of the daemon's L2 pool, mapped read-only, and where a frame lies in them.
//
// Owner thread: any, under the client's mutex. Invariants: every place handed out lies inside a
// mapping; the mappings live as long as the view, which leases keep alive beyond their session, so
// that a reader of a lease never meets unmapped memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/handshake.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/space.h"
#include "shm/region.h"
#include "shm/unique_fd.h"

namespace hc {

class ArenaView {
 public:
  ArenaView(const SpaceDescriptor& space, std::uint64_t generation_count);

  // Judges the record against space and file, and maps the file. protocol: the record is
  // impossible; refused: the file is.
  Result<void> add(const ArenaInfo& info, UniqueFd fd);

  struct Place {
    const std::uint8_t* payload;
    std::uint64_t generation_index;
  };
  // Nothing when no arena of the kind holds the frame.
  std::optional<Place> find(std::uint16_t kind, std::uint32_t frame) const;

  std::size_t count() const;

 private:
  struct Arena {
    ArenaInfo info;
    Region region;
  };
  static bool begins_after(std::uint32_t frame, const Arena& arena);

  std::vector<std::uint32_t> payload_bytes_;  // per kind
  std::uint64_t generation_count_;
  std::array<std::vector<Arena>, kKindsMax> arenas_;  // per kind, by first_frame
};

}  // namespace hc
