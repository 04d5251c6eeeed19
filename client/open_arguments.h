// SPDX-License-Identifier: Apache-2.0
// open_arguments: judges what hicache_open is given and turns it into what an attach needs.
//
// Owner thread: any. Pure apart from reading the environment and the clock. Invariants: a plan has
// passed every check that needs no daemon, and points at nothing of the caller's.
#pragma once

#include <cstdint>
#include <string>

#include "client/hicache.h"
#include "proto/result.h"
#include "proto/space.h"

namespace hc {

inline constexpr const char* kDefaultSocketPath = "/run/hicached/hicached.sock";

struct OpenPlan {
  std::string socket_path;
  std::string group;
  SpaceDescriptor space;  // tenant empty: the daemon sets it
  ShardCoordinates at;
  std::uint16_t shard = 0;  // of `at`
  std::uint16_t rank = 0;
  std::uint16_t world = 0;
  std::uint16_t shards_on_node = 0;
  std::uint32_t attach_timeout_ms = 0;
  std::uint64_t incarnation = 0;  // fixed for the life of the client
  std::uint64_t quota_bytes = 0;
  bool background = false;
  bool rank_copies = false;
};

Result<OpenPlan> check_open(const hicache_options* options, const hicache_space* space);

// A weight version for hicache_space_switch.
Result<std::string> check_weight_version(const char* weight_version);

}  // namespace hc
