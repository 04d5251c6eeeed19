// SPDX-License-Identifier: Apache-2.0
// request_rules: what a request may hold; the client checks it to give a good message, the daemon
// because it trusts no client.
#pragma once

#include <cstdint>

#include "proto/messages.h"
#include "proto/space.h"

namespace hc {

// The bits of RequestEntry::flags that a verb takes.
constexpr std::uint8_t flags_of(Verb verb) {
  switch (verb) {
    case Verb::store: return kFlagKeepLease | kFlagEveryAck | kFlagAwaitEvent;
    case Verb::load: return kFlagMaxPrefix | kFlagAwaitEvent;
    case Verb::none:
    case Verb::reload:
    case Verb::pin:
    case Verb::release:
    case Verb::free_object:
    case Verb::flush:
    case Verb::cancel:
    case Verb::copied: return 0;
  }
  return 0;
}

// Whether kind `kind` takes part in a request; a mask of 0 means every kind.
constexpr bool takes_part(std::uint8_t kind_mask, std::size_t kind) {
  return kind_mask == 0 || (kind_mask >> kind & 1U) != 0;
}

// Payload bytes of one page that a session of `shard` moves. The sum over the pages of a request is
// bounded by kOpBytesMax.
inline std::uint64_t page_payload_bytes(const SpaceDescriptor& space, std::uint8_t kind_mask,
                                        std::uint16_t owner, std::uint16_t shard) {
  std::uint64_t bytes = 0;
  for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
    const bool mine = space.kinds[kind].placement != Placement::owned || owner == shard;
    if (mine && takes_part(kind_mask, kind)) {
      bytes += space.kinds[kind].payload_bytes;
    }
  }
  return bytes;
}

}  // namespace hc
