// SPDX-License-Identifier: Apache-2.0
// op_arguments: judges an operation and its pages, and writes them into the area of a slot.
//
// Owner thread: any, under the client's mutex. Invariants: pages are written only after all of
// them were judged, so writing cannot fail.
#pragma once

#include <cstdint>
#include <span>

#include "client/hicache.h"
#include "proto/messages.h"
#include "proto/result.h"
#include "proto/space.h"

namespace hc {

// What a region offers to stores and loads.
struct RegionShape {
  std::uint32_t rows = 0;
  std::uint8_t kind_mask = 0;  // kinds with a layout
};

// The fields of `op` for this verb; region, lease and target are the caller's to judge.
Result<RequestEntry> check_op(Verb verb, const hicache_op* op, const SpaceDescriptor& space);

// Bit k set: kind k takes part.
std::uint8_t effective_kinds(std::uint8_t kind_mask, const SpaceDescriptor& space);

struct PageRules {
  const SpaceDescriptor& space;
  std::uint16_t shard = 0;  // of this rank
  Verb verb = Verb::none;   // none: exists_prefix, which takes keys and owners only
  std::uint8_t kind_mask = 0;
  const RegionShape* region = nullptr;  // store and load
};

inline constexpr std::uint64_t kExistsPagesMax = 1ULL << 24;

Result<void> check_pages(const PageRules& rules, const hicache_page* pages, std::size_t count);
// Every kind that takes part needs a layout in the region.
Result<void> check_kinds_of_region(const PageRules& rules, std::uint32_t region);

// `area` is the op area of the slot: kOpPagesBytes of pages, then metadata. The pages have passed
// check_pages with the same rules.
void write_pages(const PageRules& rules, std::span<const hicache_page> pages,
                 std::span<std::uint8_t> area);

}  // namespace hc
