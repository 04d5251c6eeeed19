// SPDX-License-Identifier: Apache-2.0
// arena_view: the arenas of the daemon's L2 pool, mapped, and where a frame lies in them.
//
// Read-only, unless the daemon gave descriptors that can be written: it trusts us to copy.
//
// Owner thread: any, under the client's mutex. Invariants: every place handed out lies inside a
// mapping; the mappings live as long as the view, which leases keep alive beyond their session, so
// that a reader of a lease never meets unmapped memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
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

  // The payload of a frame, to be written; null where there is none, or it is read-only.
  std::uint8_t* writable(std::uint16_t kind, std::uint32_t frame);

  struct Memory {
    std::span<std::uint8_t> bytes;
    std::uint64_t frame_bytes = 0;
  };
  std::vector<Memory> writable_memory();

  std::size_t count() const;

 private:
  struct Arena {
    ArenaInfo info;
    Region region;
  };
  const Arena* arena_of(std::uint16_t kind, std::uint32_t frame) const;
  static bool begins_after(std::uint32_t frame, const Arena& arena);

  std::vector<std::uint32_t> payload_bytes_;  // per kind
  std::uint64_t generation_count_;
  std::array<std::vector<Arena>, kKindsMax> arenas_;  // per kind, by first_frame
};

}  // namespace hc
