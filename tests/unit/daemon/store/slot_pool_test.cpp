// SPDX-License-Identifier: Apache-2.0
// slot_pool_test: the slots of a slab that can be taken, and how loud misuse is.
#include "daemon/store/slot_pool.h"

#include <set>

#include "support/catch.h"
#include "support/dies.h"

namespace {

using namespace hc;
using hc::test::dies_by_check;

void put_all(SlotPool& pool) {
  for (std::uint32_t slot = pool.slot_count(); slot-- > 0;) {
    pool.put(SlotId{slot});
  }
}

TEST_CASE("slot_pool: nothing can be taken before it was put, then the slot put last comes first") {
  SlotPool pool(5);
  CHECK_FALSE(pool.take());

  put_all(pool);

  std::vector<std::uint32_t> taken;
  while (const auto slot = pool.take()) {
    taken.push_back(slot->value);
  }
  CHECK(taken == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  CHECK(pool.free_count() == 0);
}

TEST_CASE("slot_pool: a slot is removed wherever it stands, and the others stay in order") {
  for (std::uint32_t gone = 0; gone < 4; ++gone) {
    SlotPool pool(4);
    put_all(pool);

    pool.remove(SlotId{gone});

    CHECK_FALSE(pool.contains(SlotId{gone}));
    CHECK(pool.free_count() == 3);
    std::vector<std::uint32_t> left;
    while (const auto slot = pool.take()) {
      left.push_back(slot->value);
    }
    std::vector<std::uint32_t> expected{0, 1, 2, 3};
    expected.erase(expected.begin() + gone);
    CHECK(left == expected);
  }
}

TEST_CASE("slot_pool: misuse is loud") {
  SlotPool pool(3);
  pool.put(SlotId{1});

  CHECK(dies_by_check([&] { pool.put(SlotId{1}); }));
  CHECK(dies_by_check([&] { pool.put(SlotId{3}); }));
  CHECK(dies_by_check([&] { pool.put(kNoSlot); }));
  CHECK(dies_by_check([&] { pool.remove(SlotId{2}); }));
}

TEST_CASE("slot_pool: clear leaves nothing to take") {
  SlotPool pool(3);
  put_all(pool);

  pool.clear();

  CHECK(pool.free_count() == 0);
  CHECK_FALSE(pool.take());
  pool.put(SlotId{2});
  CHECK(pool.take() == SlotId{2});
}

}  // namespace
