// SPDX-License-Identifier: Apache-2.0
// rank_protocol: what the bench and its rank processes tell each other.
//
// Commands and replies are fixed structs on a SEQPACKET pair, one reply for each command. Both ends
// are forked from one program, so there is no version. Bulk results lie in the RankBoard.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace hc {

enum class RankVerb : std::uint32_t {
  open = 1,      // make the client and its region
  attached,      // argument: reply when attached to that many daemon instances and serving
  exists,        // request; pages = leading pages that this rank finds
  load,          // request, argument: leading pages to load; pages = those that came
  store,         // request; pages = pages with a part that was written
  probe,         // fills the board's `present`; pages = pages found
  settle,        // waits until every store is durable or has failed
  close,         // end the client and the process
  run,           // with reloads: the whole trace
  forget,        // with reloads: forget every page; then go on giving back leases
};

struct RankCommand {
  RankVerb verb = RankVerb::open;
  std::uint32_t reserved = 0;
  std::uint64_t request = 0;
  std::uint64_t argument = 0;
};

struct RankReply {
  RankVerb verb = RankVerb::open;
  std::int32_t code = 0;             // hicache_code; not 0 ends the bench
  std::uint64_t pages = 0;
  std::uint32_t refused = 0;         // store: operations that were not accepted in the end
  std::uint32_t reserved = 0;
  std::array<char, 232> text{};      // why, when code is not 0
};

static_assert(std::is_trivially_copyable_v<RankCommand> && std::is_trivially_copyable_v<RankReply>);

}  // namespace hc
