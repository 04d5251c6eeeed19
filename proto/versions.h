// SPDX-License-Identifier: Apache-2.0
// versions: protocol and format versions, and when each one moves.
#pragma once

#include <cstdint>

namespace hc {

inline constexpr const char* kProductVersion = "0.1.0";

// Moves when a ring, socket or status-table message changes meaning. Client and daemon must be
// equal; the layout fingerprint catches what a forgotten bump would not.
inline constexpr std::uint32_t kProtocolVersion = 1;

// Moves when a byte on disk changes meaning: blob header, slab header, superblock, index row.
// An unknown version is a miss (blob) or ends the start with one line (superblock, slab).
inline constexpr std::uint16_t kDiskVersion = 1;

}  // namespace hc
