// SPDX-License-Identifier: Apache-2.0
// rank_pages_test: which bytes are a rank's, and that a wrong one is found where it is.
#include "client/ctl/rank_pages.h"

#include "support/catch.h"

namespace hc {

namespace {

// Two ranks; an owned kind and a replicated one; blocks 4 (of rank 0) and 7 (of rank 1).
class Pages {
 public:
  Pages() : region_(make_region()) {
    trace_.add({}, std::vector<std::uint64_t>{4, 7});
  }
  const BenchPlan& plan() const { return plan_; }
  const Trace& trace() const { return trace_; }
  RankRegion& region() { return region_; }

 private:
  RankRegion make_region() {
    BenchOptions options;
    options.l2 = "10blocks";
    options.l3 = "10blocks";
    options.kinds = "kv=1000:owned,indexer=300:replicated";
    plan_ = *make_plan(options);
    return std::move(*RankRegion::make(plan_.space, {.rows = 4, .runs = 3}));
  }
  BenchPlan plan_;
  Trace trace_;
  RankRegion region_;
};

}  // namespace

TEST_CASE("a rank makes and checks what is its own of a page", "[ctl]") {
  Pages pages;
  const RankPages mine(pages.plan(), pages.trace(), 0);
  RankTotals totals;
  for (std::uint32_t block = 0; block < 2; ++block) {
    mine.spoil(pages.region(), block);
    mine.fill(pages.region(), block, block);
    mine.check(pages.region(), block, block, 9, totals);
  }

  CHECK(totals.wrong_bytes == 0);
  CHECK(totals.checked_bytes == 1000 + 2 * 300);
  CHECK(mine.is_mine(0, 0));
  CHECK_FALSE(mine.is_mine(1, 0));
  CHECK(mine.is_mine(1));
  CHECK(mine.owner_of(1) == 1);
}

TEST_CASE("a row that nobody has filled is wrong from its first byte, with its request", "[ctl]") {
  Pages pages;
  const RankPages mine(pages.plan(), pages.trace(), 0);
  RankTotals totals;
  mine.spoil(pages.region(), 2);

  mine.check(pages.region(), 2, 0, 9, totals);

  CHECK(totals.wrong_bytes > 1200);
  CHECK(totals.first_wrong.hash_id == 4);
  CHECK(totals.first_wrong.request == 9);
  CHECK(totals.first_wrong.offset == 0);
}

TEST_CASE("bytes written into a spoiled row are counted", "[ctl]") {
  Pages pages;
  const RankPages mine(pages.plan(), pages.trace(), 0);
  mine.spoil(pages.region(), 1);
  CHECK(pages.region().unspoiled(1, 0) == 0);

  mine.fill(pages.region(), 1, 0);

  CHECK(pages.region().unspoiled(1, 0) > 900);
  CHECK(pages.region().unspoiled(1, 1) > 250);
  CHECK(pages.region().unspoiled(0, 1) == 300);  // never spoiled
}

}  // namespace hc
