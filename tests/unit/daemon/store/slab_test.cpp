// SPDX-License-Identifier: Apache-2.0
// slab_test: the life of a slot, its pins, and illegal moves.
#include "daemon/store/slab.h"

#include "proto/blob_header.h"
#include "support/catch.h"
#include "support/dies.h"

namespace {

using namespace hc;
using hc::test::dies_by_check;

Slab make_slab(std::uint32_t slots) {
  SlabHeader header{};
  header.slot_count = slots;
  header.payload_bytes = 5000;
  header.slot_bytes = blob_bytes(5000);
  header.first_slot_offset = kFirstSlotOffset;
  return Slab(FileId{1}, header);
}

TEST_CASE("slab: a slot goes from free to committed to limbo to free, and counts follow") {
  Slab slab = make_slab(2);

  const auto slot = slab.take(Generation{7});
  REQUIRE(slot);
  CHECK(slab.state(*slot) == SlotState::writing);
  CHECK(slab.live_count() == 1);
  slab.mark_written(*slot);
  slab.mark_committed(*slot);
  CHECK(slab.generation(*slot) == Generation{7});
  slab.mark_limbo(*slot);
  CHECK(slab.live_count() == 0);
  CHECK(slab.limbo_count() == 1);
  CHECK(slab.free_count() == 1);
  slab.leave_limbo(*slot);

  CHECK(slab.free_count() == 2);
  CHECK(slab.limbo_count() == 0);
}

TEST_CASE("slab: a pinned slot leaves limbo only with its last pin") {
  Slab slab = make_slab(1);
  const auto slot = slab.take(Generation{1});
  slab.mark_written(*slot);
  slab.pin(*slot);
  slab.pin(*slot);
  slab.mark_limbo(*slot);

  slab.leave_limbo(*slot);
  CHECK_FALSE(slab.take(Generation{2}));
  slab.unpin(*slot);
  CHECK_FALSE(slab.take(Generation{2}));
  slab.unpin(*slot);

  CHECK(slab.take(Generation{2}) == slot);
}

TEST_CASE("slab: illegal moves are loud") {
  Slab slab = make_slab(3);
  const auto slot = slab.take(Generation{1});

  CHECK(dies_by_check([&] { slab.mark_committed(*slot); }));
  CHECK(dies_by_check([&] { slab.leave_limbo(*slot); }));
  CHECK(dies_by_check([&] { slab.mark_written(SlotId{2}); }));
  CHECK(dies_by_check([&] { slab.pin(*slot); }));
  CHECK(dies_by_check([&] { slab.unpin(*slot); }));
  slab.mark_written(*slot);
  CHECK(dies_by_check([&] { slab.cancel_write(*slot); }));
}

TEST_CASE("slab: a quarantined slot is never handed out until the slab is reset") {
  Slab slab = make_slab(1);
  const auto slot = slab.take(Generation{1});
  slab.mark_quarantined(*slot);

  CHECK_FALSE(slab.take(Generation{2}));
  CHECK(slab.quarantined_count() == 1);
  slab.reset();

  CHECK(slab.take(Generation{3}) == slot);
}

TEST_CASE("slab: rebuild keeps live slots committed and a new write never lands on one") {
  Slab slab = make_slab(4);

  slab.rebuild({{SlotId{1}, Generation{11}}, {SlotId{2}, Generation{12}}}, {});

  CHECK(slab.state(SlotId{1}) == SlotState::committed);
  CHECK(slab.generation(SlotId{2}) == Generation{12});
  CHECK(slab.take(Generation{20}) == SlotId{0});
  CHECK(slab.take(Generation{21}) == SlotId{3});
  CHECK_FALSE(slab.take(Generation{22}));
}

TEST_CASE("slab: slots stand behind each other after the header blocks") {
  const Slab slab = make_slab(3);

  CHECK(slab.slot_offset(SlotId{0}) == kFirstSlotOffset);
  CHECK(slab.slot_offset(SlotId{2}) == kFirstSlotOffset + 2 * blob_bytes(5000));
  CHECK(slab.file_bytes() == kFirstSlotOffset + 3 * blob_bytes(5000));
}

TEST_CASE("slab: an unscanned slot is not handed out until it is known to be free") {
  Slab slab = make_slab(4);
  slab.rebuild({{SlotId{0}, Generation{5}}}, {SlotId{1}}, Slab::Rest::unscanned);
  CHECK(slab.unscanned_count() == 2);
  CHECK(slab.free_count() == 0);
  CHECK_FALSE(slab.take(Generation{9}));

  slab.adopt_unscanned(SlotId{2}, Generation{6});
  slab.free_unscanned(SlotId{3});

  CHECK(slab.unscanned_count() == 0);
  CHECK(slab.live_count() == 2);
  CHECK(slab.generation(SlotId{2}) == Generation{6});
  CHECK(slab.take(Generation{9}) == SlotId{3});
  CHECK(dies_by_check([&] { slab.free_unscanned(SlotId{2}); }));
}

}  // namespace
