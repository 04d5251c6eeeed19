// SPDX-License-Identifier: Apache-2.0
// budget: static split of L2 and L3 by kind and shard.
#include "proto/budget.h"

#include <algorithm>

#include "proto/blob_header.h"
#include "proto/limits.h"
#include "proto/slab_header.h"

namespace hc {

namespace {

// Shards beyond the node's count have no slab here. Which ones they are is known only when they
// attach, so parts are counted, not named: the first shards_on_node parts of a kind stand for it.
std::uint32_t local_shards(const SpaceDescriptor& space, std::uint16_t shards_on_node) {
  const std::uint32_t world = space.world.shards();
  return shards_on_node == 0 ? world : std::min<std::uint32_t>(shards_on_node, world);
}

std::uint64_t share(std::uint64_t pages, std::uint32_t shards) {
  return (pages + shards - 1) / shards;
}

}  // namespace

std::vector<PartBudget> slots_for_pages(const SpaceDescriptor& space, std::uint16_t shards_on_node,
                                        std::uint64_t pages, std::uint32_t reserve_slots) {
  const std::uint32_t shards = local_shards(space, shards_on_node);
  std::vector<PartBudget> out;
  for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
    const KindSpec& spec = space.kinds[kind];
    const bool replicated = spec.placement == Placement::replicated;
    const bool owned = spec.placement == Placement::owned;
    const std::uint64_t slots = (owned ? share(pages, shards) : pages) + reserve_slots;
    const std::uint32_t first = part_index(space, static_cast<std::uint16_t>(kind), 0);
    for (std::uint32_t shard = 0; shard < (replicated ? 1U : shards); ++shard) {
      out.push_back({first + shard,
                     static_cast<std::uint32_t>(std::min<std::uint64_t>(slots, kNone32 - 1U)),
                     blob_bytes(spec.payload_bytes)});
    }
  }
  return out;
}

std::uint64_t slab_bytes(const std::vector<PartBudget>& parts) {
  std::uint64_t total = 0;
  for (const PartBudget& part : parts) {
    total += kFirstSlotOffset + part.slot_count * part.slot_bytes;
  }
  return total;
}

std::uint64_t pages_for_slab_budget(const SpaceDescriptor& space, std::uint16_t shards_on_node,
                                    std::uint64_t budget_bytes, std::uint32_t reserve_slots) {
  std::uint64_t low = 0;
  std::uint64_t high = kPagesMax;
  while (low < high) {
    const std::uint64_t middle = (low + high + 1) / 2;
    const auto parts = slots_for_pages(space, shards_on_node, middle, reserve_slots);
    if (slab_bytes(parts) <= budget_bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

std::uint64_t frames_for_pages(const SpaceDescriptor& space, std::uint16_t shards_on_node,
                               std::uint16_t kind, std::uint64_t pages) {
  HC_CHECK(kind < space.kinds.size());
  const bool sharded = space.kinds[kind].placement == Placement::sharded;
  return sharded ? pages * local_shards(space, shards_on_node) : pages;
}

std::uint64_t frame_bytes_per_page(const SpaceDescriptor& space, std::uint16_t shards_on_node) {
  std::uint64_t total = 0;
  for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
    const auto number = static_cast<std::uint16_t>(kind);
    total += frames_for_pages(space, shards_on_node, number, 1) *
             blob_bytes(space.kinds[kind].payload_bytes);
  }
  return total;
}

std::uint64_t quota_page_bytes(const SpaceDescriptor& space) {
  std::uint64_t total = 0;
  for (const KindSpec& kind : space.kinds) {
    total += blob_bytes(kind.payload_bytes);
  }
  return total;
}

Result<std::uint32_t> quota_pages(const SpaceDescriptor& space, std::string_view field,
                                  std::uint64_t quota_bytes) {
  const std::uint64_t page_bytes = quota_page_bytes(space);
  if (quota_bytes != 0 && quota_bytes < page_bytes) {
    return make_error(Code::bad_argument, std::string(field) + " = " +
                                              std::to_string(quota_bytes) +
                                              ": must be 0 or at least " +
                                              std::to_string(page_bytes) + ", one page");
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(quota_bytes / page_bytes, kPagesMax));
}

std::uint32_t quota_owners(const SpaceDescriptor& space) {
  const bool owned = std::any_of(space.kinds.begin(), space.kinds.end(), [](const KindSpec& kind) {
    return kind.placement == Placement::owned;
  });
  return owned ? space.world.shards() : 1;
}

std::uint64_t l2_pages_of_quota(const SpaceDescriptor& space, std::uint16_t shards_on_node,
                                std::uint32_t pages) {
  const std::uint64_t all_owners = std::uint64_t{pages} * quota_owners(space);
  const bool only_owned =
      std::all_of(space.kinds.begin(), space.kinds.end(),
                  [](const KindSpec& kind) { return kind.placement == Placement::owned; });
  // A page of another node's shard has no frame here, unless it has kinds that are not owned.
  return only_owned ? std::uint64_t{pages} * local_shards(space, shards_on_node) : all_owners;
}

}  // namespace hc
