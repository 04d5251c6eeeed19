// SPDX-License-Identifier: Apache-2.0
// slot_pool_test: the free list of a slab, and how loud misuse of it is.
#include "daemon/store/slot_pool.h"

#include <set>

#include "support/catch.h"
#include "support/dies.h"

namespace {

using namespace hc;
using hc::test::dies_by_check;

TEST_CASE("slot_pool: every slot is handed out once, low ones first, then none") {
  SlotPool pool(5);

  std::vector<std::uint32_t> taken;
  while (const auto slot = pool.take()) {
    taken.push_back(slot->value);
  }

  CHECK(taken == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  CHECK(pool.free_count() == 0);
  CHECK(pool.slot_count() - pool.free_count() == 5);
}

TEST_CASE("slot_pool: arbitrary slots come back, in any order") {
  SlotPool pool(4);
  while (pool.take()) {
  }

  pool.free(SlotId{2});
  pool.free(SlotId{0});

  CHECK(pool.free_count() == 2);
  CHECK_FALSE(pool.is_taken(SlotId{0}));
  CHECK(pool.is_taken(SlotId{1}));
  const std::set<std::uint32_t> again{pool.take()->value, pool.take()->value};
  CHECK(again == std::set<std::uint32_t>{0, 2});
}

TEST_CASE("slot_pool: a double free is loud") {
  SlotPool pool(3);
  const auto slot = pool.take();
  pool.free(*slot);

  CHECK(dies_by_check([&] { pool.free(*slot); }));
}

TEST_CASE("slot_pool: a free out of range is loud") {
  SlotPool pool(3);

  CHECK(dies_by_check([&] { pool.free(SlotId{3}); }));
  CHECK(dies_by_check([&] { pool.free(kNoSlot); }));
}

TEST_CASE("slot_pool: a free of a slot that was never taken is loud") {
  SlotPool pool(3);
  REQUIRE(pool.take());

  CHECK(dies_by_check([&] { pool.free(SlotId{2}); }));
}

TEST_CASE("slot_pool: reset makes every slot free again") {
  SlotPool pool(3);
  while (pool.take()) {
  }

  pool.reset();

  CHECK(pool.free_count() == 3);
  CHECK(pool.take() == SlotId{0});
}

TEST_CASE("slot_pool: rebuild takes exactly the given slots and frees the rest") {
  SlotPool pool(6);
  REQUIRE(pool.take());
  const std::vector<SlotId> live{SlotId{5}, SlotId{1}, SlotId{3}};

  pool.rebuild(live);

  CHECK(pool.slot_count() - pool.free_count() == 3);
  std::set<std::uint32_t> free;
  while (const auto slot = pool.take()) {
    free.insert(slot->value);
  }
  CHECK(free == std::set<std::uint32_t>{0, 2, 4});
}

TEST_CASE("slot_pool: rebuild of a slot that stands twice or is out of range is loud") {
  SlotPool pool(4);
  const std::vector<SlotId> twice{SlotId{1}, SlotId{1}};
  const std::vector<SlotId> outside{SlotId{4}};

  CHECK(dies_by_check([&] { pool.rebuild(twice); }));
  CHECK(dies_by_check([&] { pool.rebuild(outside); }));
}

// One pass over the slots and one over the list: a list of every slot of a million-slot pool would
// take hours if it were searched for each slot.
TEST_CASE("slot_pool: rebuild of a million slots visits each once") {
  constexpr std::uint32_t kSlots = 1'000'000;
  SlotPool pool(kSlots);
  std::vector<SlotId> live;
  for (std::uint32_t slot = kSlots; slot-- > 0;) {
    if (slot % 3 != 0) {
      live.push_back(SlotId{slot});
    }
  }

  pool.rebuild(live);

  CHECK(pool.slot_count() - pool.free_count() == live.size());
  CHECK(pool.take() == SlotId{0});
  CHECK(pool.take() == SlotId{3});
}

}  // namespace
