// SPDX-License-Identifier: Apache-2.0
// store_heir: who goes on with a part when the store that was filling it has ended.
//
// Of concurrent stores of one part the first fills it, the others wait. When the first fails, is
// cancelled, passes its deadline or dies, the store that has waited longest copies from its own
// memory. A copy that is running can't be stopped and may go on touching the memory of its client:
// its frame stays its own until it ends, and the heir gets another one. With no other frame to be
// had the heir waits for that end. A read from disk that fails leaves the part to an heir likewise.
#include "daemon/engine/verbs.h"
#include "proto/check.h"

namespace hc {

// The store that has waited longest for the part to become resident. The list's end is its oldest.
std::uint32_t Verbs::heir_of(PartRef ref) const {
  std::uint32_t heir = kNone32;
  for (std::uint32_t at = core_.catalog->part(ref).first_waiter; at != kNone32;
       at = core_.ops.item(at).next) {
    const Item& item = core_.ops.item(at);
    if (item.needs_resident && core_.ops.op(item.op).verb() == Verb::store) {
      heir = at;
    }
  }
  return heir;
}

bool Verbs::is_awaited(PartRef ref) const {
  for (std::uint32_t at = core_.catalog->part(ref).first_waiter; at != kNone32;
       at = core_.ops.item(at).next) {
    if (core_.ops.item(at).needs_resident) {
      return true;
    }
  }
  return false;
}

// What is left to reach when the stored copy is not what it was when the store began. Its operation
// has acknowledged nothing yet: this item has not become resident.
void Verbs::renew_needs_of(std::uint32_t index) {
  Item& item = core_.ops.item(index);
  Op& op = core_.ops.op(item.op);
  if (op.verb() != Verb::store || !item.needs_resident) {
    return;
  }
  HC_CHECK(op.acked == Ack::none);
  const auto final_ack = static_cast<Ack>(op.request.entry.ack);
  const L3State l3 = core_.catalog->part(item.part).l3;
  if (!item.needs_written && final_ack >= Ack::written && l3 < L3State::written) {
    item.needs_written = true;
    ++op.written_left;
  }
  if (!item.needs_durable && final_ack >= Ack::durable && l3 < L3State::durable) {
    item.needs_durable = true;
    ++op.durable_left;
  }
}

void Verbs::renew_needs(PartRef ref) {
  for (std::uint32_t at = core_.catalog->part(ref).first_waiter; at != kNone32;
       at = core_.ops.item(at).next) {
    renew_needs_of(at);
  }
}

// The part stays in memory alone: nothing more will come of it for those who wait.
void Verbs::drop_needs(PartRef ref) {
  for (std::uint32_t at = core_.catalog->part(ref).first_waiter; at != kNone32;
       at = core_.ops.item(at).next) {
    Item& item = core_.ops.item(at);
    Op& op = core_.ops.op(item.op);
    if (!item.needs_written && !item.needs_durable) {
      continue;
    }
    HC_CHECK(item.needs_resident && op.acked == Ack::none);
    op.written_left -= item.needs_written ? 1U : 0U;
    op.durable_left -= item.needs_durable ? 1U : 0U;
    item.needs_written = item.needs_durable = false;
    op.held_back = true;
  }
}

// The part is absent, and a frame of its kind is free. False: no store waits for it.
bool Verbs::promote_heir(PartRef ref) {
  const Part& part = core_.catalog->part(ref);
  HC_CHECK(part.l2 == L2State::absent);
  const std::uint32_t heir = heir_of(ref);
  if (heir == kNone32 || core_.catalog->page(core_.catalog->page_of(ref)).doomed) {
    return false;
  }
  if (part.l3 == L3State::absent && !core_.catalog->unsettled().contains(ref.value)) {
    // It was stored until now: every flush that is open waits for it, and it is stored again.
    works_.pages.unsettle_first(ref);
    core_.catalog->part(ref).spill_wanted = true;
  }
  const auto frame = core_.frames_of(ref).take();
  HC_CHECK(frame.has_value());
  core_.ops.remove_waiter(*core_.catalog, heir);
  begin_fill(heir, *frame);
  ++core_.counters.stores_promoted;
  ++core_.moves;
  return true;
}

// The part is absent: its filler has gone. A frame of its kind is free if anybody waits for it.
void Verbs::refill(PartRef ref, Code code) {
  const Part& part = core_.catalog->part(ref);
  const bool doomed = core_.catalog->page(core_.catalog->page_of(ref)).doomed;
  const bool on_disk = part.l3 >= L3State::written && !doomed;
  if (on_disk && heir_of(ref) == kNone32 && is_awaited(ref)) {
    core_.catalog->part(ref).spill_wanted = false;
    works_.fills.start(ref);
  } else {
    part_fill_failed(ref, code);
  }
}

// A forgotten page settles with the end of the copy.
void Verbs::fill_abandoned(std::uint32_t index) {
  Item& item = core_.ops.item(index);
  const PartRef ref = item.part;
  Part& part = core_.catalog->part(ref);
  HC_CHECK(!item.abandoned && part.l2 == L2State::filling && part.frame == item.frame);
  if (core_.catalog->page(core_.catalog->page_of(ref)).doomed) {
    return;
  }
  const std::uint16_t kind = core_.family_of(ref).kind_of(core_.catalog->part_of(ref));
  if (is_awaited(ref) && !works_.pages.ensure_frames(core_.family_of(ref), kind, 1)) {
    return;  // the end of the copy brings a frame
  }
  ++core_.counters.stores_discarded;
  ++core_.moves;  // a rebuild may have waited for it with an older blob of the part
  item.abandoned = true;
  part.frame = kNoFrame;
  part.l2 = L2State::absent;
  refill(ref, Code::retry);
}

// The frame that nobody but the copy has seen comes free.
void Verbs::end_abandoned(std::uint32_t index) {
  const Item item = core_.ops.item(index);
  const PageId page = core_.catalog->page_of(item.part);
  core_.ops.free_item(index);
  core_.frames_of(item.part).give_back(item.frame);
  ++core_.moves;
  ends_.continue_end(item.op);
  works_.pages.drop_busy(page);
  works_.forget.settle(page);
  works_.pages.end_if_empty(page);
}

}  // namespace hc
