// SPDX-License-Identifier: Apache-2.0
// slab_test: the life of a slot, its pins, and illegal moves.
#include "daemon/store/slab.h"

#include "proto/blob_header.h"
#include "support/catch.h"
#include "support/dies.h"

namespace {

using namespace hc;
using hc::test::dies_by_check;

Slab bare_slab(std::uint32_t slots, std::uint32_t slots_per_step) {
  SlabHeader header{};
  header.slot_count = slots;
  header.slots_per_step = slots_per_step;
  header.payload_bytes = 5000;
  header.slot_bytes = blob_bytes(5000);
  header.first_slot_offset = kFirstSlotOffset;
  return Slab(FileId{1}, header);
}

// One step, open.
Slab make_slab(std::uint32_t slots) {
  Slab slab = bare_slab(slots, slots);
  slab.open_step(0);
  return slab;
}

// A page's way to the end of its slot.
void store_and_forget(Slab& slab, SlotId slot) {
  slab.mark_written(slot);
  slab.mark_limbo(slot);
  slab.leave_limbo(slot);
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
  Slab slab = bare_slab(4, 4);

  slab.rebuild({{{SlotId{1}, Generation{11}}, {SlotId{2}, Generation{12}}}, {}, {}});

  CHECK(slab.state(SlotId{1}) == SlotState::committed);
  CHECK(slab.generation(SlotId{2}) == Generation{12});
  CHECK(slab.take(Generation{20}) == SlotId{0});
  CHECK(slab.take(Generation{21}) == SlotId{3});
  CHECK_FALSE(slab.take(Generation{22}));
}

TEST_CASE("slab: only slots of open steps can be taken, and the last step may be short") {
  Slab slab = bare_slab(5, 2);
  CHECK(slab.step_count() == 3);
  CHECK(slab.slots_of_step(2) == 1);
  CHECK(slab.absent_step() == 0U);
  CHECK_FALSE(slab.take(Generation{1}));

  slab.open_step(2);

  CHECK(slab.usable_count() == 1);
  CHECK(slab.take(Generation{1}) == SlotId{4});
  CHECK_FALSE(slab.take(Generation{2}));
  slab.open_step(0);
  CHECK(slab.absent_step() == 1U);
  CHECK(slab.take(Generation{2}) == SlotId{0});
}

TEST_CASE("slab: a closing step hands out nothing, empties, and goes; its slots never come back") {
  Slab slab = bare_slab(4, 2);
  slab.open_step(1);
  slab.open_step(0);
  const auto first = slab.take(Generation{1});
  REQUIRE(first == SlotId{0});
  slab.mark_written(*first);

  slab.close_step(0);

  CHECK(slab.usable_count() == 2);
  CHECK(slab.free_count() == 2);
  CHECK(slab.step_in_use(0) == 1);
  CHECK(dies_by_check([&] { slab.drop_step(0); }));
  slab.pin(*first);
  slab.mark_limbo(*first);
  slab.leave_limbo(*first);
  CHECK(slab.step_in_use(0) == 1);  // a reader is still there
  slab.unpin(*first);
  CHECK(slab.step_in_use(0) == 0);
  CHECK(slab.free_count() == 2);
  slab.drop_step(0);
  CHECK(slab.step_state(0) == StepState::absent);
  CHECK(slab.take(Generation{2}) == SlotId{2});
  CHECK(slab.take(Generation{3}) == SlotId{3});
  CHECK_FALSE(slab.take(Generation{4}));
}

TEST_CASE("slab: a closing step that can't be emptied opens again with what is free in it") {
  Slab slab = bare_slab(4, 4);
  slab.open_step(0);
  const auto kept = slab.take(Generation{1});
  const auto gone = slab.take(Generation{2});
  slab.close_step(0);
  store_and_forget(slab, *gone);

  slab.open_step(0);

  CHECK(slab.usable_count() == 4);
  CHECK(slab.free_count() == 3);
  CHECK(slab.state(*kept) == SlotState::writing);
}

TEST_CASE("slab: a set-aside slot does not keep its step, and stays set aside in the next one") {
  Slab slab = bare_slab(2, 2);
  slab.open_step(0);
  const auto slot = slab.take(Generation{1});
  slab.mark_quarantined(*slot);
  CHECK(slab.usable_count() == 1);

  slab.close_step(0);
  slab.drop_step(0);
  slab.open_step(0);

  CHECK(slab.usable_count() == 1);
  CHECK(slab.free_count() == 1);
  CHECK(slab.state(*slot) == SlotState::quarantined);
}

TEST_CASE("slab: rebuild opens exactly the steps that live slots and limbo name") {
  Slab slab = bare_slab(8, 2);

  slab.rebuild({{{SlotId{1}, Generation{11}}}, {SlotId{6}}, {}});

  CHECK(slab.step_state(0) == StepState::open);
  CHECK(slab.step_state(1) == StepState::absent);
  CHECK(slab.step_state(2) == StepState::absent);
  CHECK(slab.step_state(3) == StepState::open);
  CHECK(slab.free_count() == 2);
  CHECK(slab.step_in_use(0) == 1);
  CHECK(slab.step_in_use(3) == 1);
}

TEST_CASE("slab: reset frees every slot of open steps and opens no other") {
  Slab slab = bare_slab(6, 2);
  slab.rebuild({{{SlotId{1}, Generation{11}}}, {SlotId{4}}, {}});

  slab.reset();

  CHECK(slab.free_count() == 4);
  CHECK(slab.usable_count() == 4);
  CHECK(slab.step_state(1) == StepState::absent);
  CHECK(slab.step_in_use(0) == 0);
  CHECK(slab.take(Generation{1}) == SlotId{0});
}

TEST_CASE("slab: slots stand behind each other after the header blocks") {
  const Slab slab = make_slab(3);

  CHECK(slab.slot_offset(SlotId{0}) == kFirstSlotOffset);
  CHECK(slab.slot_offset(SlotId{2}) == kFirstSlotOffset + 2 * blob_bytes(5000));
  CHECK(slab.file_bytes() == kFirstSlotOffset + 3 * blob_bytes(5000));
}

TEST_CASE("slab: an unscanned slot is not handed out until it is known to be free") {
  Slab slab = bare_slab(6, 4);
  slab.rebuild({{{SlotId{0}, Generation{5}}}, {SlotId{1}}, {true, false}});
  CHECK(slab.step_state(1) == StepState::absent);
  CHECK(slab.step_in_use(0) == 4);
  CHECK(slab.step_unscanned(0) == 2);
  CHECK(slab.unscanned_count() == 2);
  CHECK(slab.free_count() == 0);
  CHECK_FALSE(slab.take(Generation{9}));

  slab.adopt_unscanned(SlotId{2}, Generation{6});
  slab.free_unscanned(SlotId{3});

  CHECK(slab.unscanned_count() == 0);
  CHECK(slab.step_unscanned(0) == 0);
  CHECK(slab.step_in_use(0) == 3);
  CHECK(slab.live_count() == 2);
  CHECK(slab.generation(SlotId{2}) == Generation{6});
  CHECK(slab.take(Generation{9}) == SlotId{3});
  CHECK(dies_by_check([&] { slab.free_unscanned(SlotId{2}); }));
}

}  // namespace
