// SPDX-License-Identifier: Apache-2.0
// budget_test: how a byte budget is split over the parts of a family.
#include "proto/budget.h"

#include <map>
#include <vector>

#include "proto/blob_header.h"
#include "proto/slab_header.h"
#include "support/catch.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

// Kinds of sample_space(): 0 sharded, 1 replicated, 2 owned; eight shards.
std::map<std::uint32_t, PartBudget> budgets(std::uint16_t shards_on_node, std::uint64_t pages,
                                            std::uint32_t reserve_slots) {
  std::map<std::uint32_t, PartBudget> out;
  for (const PartBudget& part :
       slots_for_pages(sample_space(), shards_on_node, pages, reserve_slots)) {
    CHECK(out.emplace(part.part, part).second);
  }
  return out;
}

}  // namespace

TEST_CASE("Every part on the node gets a slot per page, and owned parts share the pages") {
  const auto parts = budgets(0, 100, 7);
  REQUIRE(parts.size() == parts_of(sample_space()).size());
  for (const auto& [number, part] : parts) {
    CAPTURE(number);
    const std::uint16_t kind = parts_of(sample_space())[number].kind;
    CHECK(part.slot_bytes == blob_bytes(sample_space().kinds[kind].payload_bytes));
    CHECK(part.slot_count == (kind == 2 ? 13 : 100) + 7);
  }
}

TEST_CASE(
    "A node that holds some of the shards budgets for as many, and once for replicated kinds") {
  const auto parts = budgets(2, 100, 0);
  CHECK(parts.size() == 2 + 1 + 2);
  CHECK(parts.count(part_index(sample_space(), 0, 1)) == 1);
  CHECK(parts.count(part_index(sample_space(), 0, 2)) == 0);
  CHECK(parts.at(part_index(sample_space(), 1, 0)).slot_count == 100);
  CHECK(parts.at(part_index(sample_space(), 2, 1)).slot_count == 50);
  CHECK(budgets(200, 100, 0).size() == parts_of(sample_space()).size());
}

TEST_CASE("Slabs take their header and their slots") {
  CHECK(slab_bytes({}) == 0);
  CHECK(slab_bytes({{0, 3, 8192}}) == kFirstSlotOffset + 3 * 8192);
  CHECK(slab_bytes({{0, 3, 8192}, {1, 1, 4096}}) == 2 * kFirstSlotOffset + 3 * 8192 + 4096);
}

TEST_CASE("The most pages for a budget fit into it, and one page more does not") {
  const SpaceDescriptor space = sample_space();
  for (const std::uint16_t shards : std::vector<std::uint16_t>{0, 1, 3}) {
    for (const std::uint64_t budget : {1ULL << 30, 10ULL << 30, (1ULL << 40) + 12345}) {
      CAPTURE(shards, budget);
      const std::uint64_t pages = pages_for_slab_budget(space, shards, budget, 5);
      CHECK(pages > 0);
      CHECK(slab_bytes(slots_for_pages(space, shards, pages, 5)) <= budget);
      CHECK(slab_bytes(slots_for_pages(space, shards, pages + 1, 5)) > budget);
    }
  }
  CHECK(pages_for_slab_budget(space, 0, 0, 0) == 0);
  CHECK(pages_for_slab_budget(space, 0, 1ULL << 20, 5) == 0);
  CHECK(pages_for_slab_budget(space, 0, UINT64_MAX, 0) == kPagesMax);
}

TEST_CASE("A page takes one frame of each sharded part on the node, and one of each other kind") {
  const SpaceDescriptor space = sample_space();
  CHECK(frames_for_pages(space, 0, 0, 10) == 80);
  CHECK(frames_for_pages(space, 2, 0, 10) == 20);
  CHECK(frames_for_pages(space, 2, 1, 10) == 10);
  CHECK(frames_for_pages(space, 2, 2, 10) == 10);
  CHECK(frame_bytes_per_page(space, 2) ==
        2 * blob_bytes(2561024) + blob_bytes(515328) + blob_bytes(40960));
}

TEST_CASE("A quota is whole pages of one blob of every kind, and less than one is refused") {
  const SpaceDescriptor space = sample_space();
  const std::uint64_t page = blob_bytes(2561024) + blob_bytes(515328) + blob_bytes(40960);
  CHECK(quota_page_bytes(space) == page);
  CHECK(quota_pages(space, "quota", 0).value() == 0);
  CHECK(quota_pages(space, "quota", 3 * page + page - 1).value() == 3);
  CHECK(quota_pages(space, "quota", UINT64_MAX).value() == kPagesMax);
  const auto refused = quota_pages(space, "quota", page - 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::bad_argument);
  CHECK(refused.error().text == "quota = " + std::to_string(page - 1) +
                                    ": must be 0 or at least " + std::to_string(page) +
                                    ", one page");
}

TEST_CASE("A quota is for each owner, and pages of other nodes take frames if they have others") {
  SpaceDescriptor space = sample_space();
  CHECK(quota_owners(space) == 8);
  CHECK(l2_pages_of_quota(space, 2, 5) == 40);
  space.kinds.erase(space.kinds.begin(), space.kinds.begin() + 2);
  CHECK(quota_owners(space) == 8);
  CHECK(l2_pages_of_quota(space, 2, 5) == 10);
  CHECK(l2_pages_of_quota(space, 0, 5) == 40);
  space.kinds[0].placement = Placement::sharded;
  CHECK(quota_owners(space) == 1);
  CHECK(l2_pages_of_quota(space, 2, 5) == 5);
}

}  // namespace hc::proto_test
