// SPDX-License-Identifier: Apache-2.0
// family: what all spaces share that differ in their weight version alone: parts, frames, slabs.
//
// Owner: the reactor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/pool/frame_pool.h"
#include "proto/ids.h"
#include "proto/space.h"

namespace hc {

struct SpaceSetOptions {
  std::uint64_t l2_bytes = 0;        // of all families together
  std::uint64_t l2_family_bytes = 0; // the most that one family takes; 0: what is left
  std::uint64_t l3_bytes = 0;        // of the only volume
  std::vector<std::uint64_t> volume_bytes;  // of several volumes; empty: l3_bytes
  std::uint32_t reserve_slots = 0;   // 0: automatic
  // Memory for tables of pages and slots; 0: an eighth of the machine's memory or l2_bytes,
  // whichever is larger.
  std::uint64_t tables_bytes_max = 0;
  std::uint64_t status_key = 0;      // of the status tables; see status_home
  ArenaOptions arenas;

  std::vector<std::uint64_t> volumes() const {
    return volume_bytes.empty() ? std::vector<std::uint64_t>{l3_bytes} : volume_bytes;
  }
};

// A family's share of one volume, were it alone on it.
struct VolumeShare {
  std::uint64_t pages = 0;           // live pages; 0: the family does not use this volume
  std::uint32_t reserve_slots = 0;   // beside them, in every slab
};

struct Family {
  FamilyNo number{};
  FamilyId id;
  SpaceDescriptor descriptor;            // of its first space
  std::uint16_t shards_on_node = 0;
  std::uint32_t sessions = 0;            // attached now
  std::uint64_t pages_reserved = 0;      // of L2, by quotas
  std::uint64_t leased_without_quota = 0;  // distinct pages
  std::uint64_t with_ranks = 0;            // pages of operations that ranks copy, beside leases
  bool room_wanted = false;              // by an operation of a quota: nobody else takes frames
  std::vector<PartSpec> parts;
  std::uint64_t pages_l2 = 0;            // pages that the frames hold
  std::vector<VolumeShare> shares;       // by volume
  std::uint32_t pages_max = 0;           // records
  std::uint64_t tables_bytes = 0;
  std::unique_ptr<ArenaSet> arenas;
  std::vector<FramePool> frames;         // by kind
  std::vector<std::optional<SlabId>> slabs;  // by part and volume; see slab()

  std::uint32_t volume_count() const { return static_cast<std::uint32_t>(shares.size()); }
  std::uint16_t kind_of(std::uint32_t part) const { return parts[part].kind; }
  std::uint32_t payload_bytes(std::uint32_t part) const {
    return descriptor.kinds[parts[part].kind].payload_bytes;
  }
  // Opened when a rank of the part's shard attaches; nothing before that.
  std::optional<SlabId>& slab(std::uint32_t part, std::uint16_t volume) {
    return slabs[part * shares.size() + volume];
  }
  const std::optional<SlabId>& slab(std::uint32_t part, std::uint16_t volume) const {
    return slabs[part * shares.size() + volume];
  }
};

}  // namespace hc
