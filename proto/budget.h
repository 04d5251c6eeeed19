// SPDX-License-Identifier: Apache-2.0
// budget: how a byte budget of one family is split over its parts, the same in daemon and tools.
//
// Every part gets the same number of slots (frames), one per page; the parts of an owned kind
// share one page's place, so each gets its share of the pages.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "proto/result.h"
#include "proto/space.h"

namespace hc {

struct PartBudget {
  std::uint32_t part = 0;       // index in parts_of(space)
  std::uint32_t slot_count = 0;
  std::uint64_t slot_bytes = 0; // header block + payload, rounded up
};

// Slots of every part for `pages` live pages and `reserve_slots` free ones beside them, on a node
// that holds `shards_on_node` shards.
std::vector<PartBudget> slots_for_pages(const SpaceDescriptor& space, std::uint16_t shards_on_node,
                                        std::uint64_t pages, std::uint32_t reserve_slots);

// Bytes that the slab files of these parts take together, headers included.
std::uint64_t slab_bytes(const std::vector<PartBudget>& parts);

// The most live pages whose slabs fit into `budget_bytes`; 0 when not even one page does.
std::uint64_t pages_for_slab_budget(const SpaceDescriptor& space, std::uint16_t shards_on_node,
                                    std::uint64_t budget_bytes, std::uint32_t reserve_slots);

// Frames of kind `kind` for `pages` pages in L2, all shards of the node together.
std::uint64_t frames_for_pages(const SpaceDescriptor& space, std::uint16_t shards_on_node,
                               std::uint16_t kind, std::uint64_t pages);
// L2 bytes of one page: the frames of all its kinds and shards on this node.
std::uint64_t frame_bytes_per_page(const SpaceDescriptor& space, std::uint16_t shards_on_node);

// Quotas. Every rank, and the daemon of every node, computes the same pages from the same bytes.
// What one page takes of a quota: one blob of every kind.
std::uint64_t quota_page_bytes(const SpaceDescriptor& space);
// Whole pages of the quota, for each owner; bad_argument in one line that names `field` when it is
// less than one page. 0 bytes are no quota.
Result<std::uint32_t> quota_pages(const SpaceDescriptor& space, std::string_view field,
                                  std::uint64_t quota_bytes);
// Owners among whom a quota is counted: with owned kinds every shard has its pages.
std::uint32_t quota_owners(const SpaceDescriptor& space);
// How many of the pages that L2 holds `pages` for each owner may take on this node.
std::uint64_t l2_pages_of_quota(const SpaceDescriptor& space, std::uint16_t shards_on_node,
                                std::uint32_t pages);

}  // namespace hc
