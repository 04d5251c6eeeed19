// SPDX-License-Identifier: Apache-2.0
// store_verb: writes what is missing of an operation's pages and touches the rest.
//
// Per part, what is there decides:
//
//   L2       L3              without keep_lease        with keep_lease
//   absent   absent          copy in, spill            copy in, spill
//   absent   written..       nothing to copy           copy in, no spill
//   filling  any             wait for that fill        wait for that fill (store_heir.cpp)
//   resident absent          spill (*)                 spill (*)
//   resident queued..        nothing to copy           nothing to copy
//
// (*) Or hold back, as the spill policy says (admission).
// Pages go from the last to the first, so that the tail is older than the head in every order.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "daemon/engine/verbs.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

bool needs_copy(const Part& part, bool keep_lease) {
  return part.l2 == L2State::absent && (keep_lease || part.l3 == L3State::absent);
}

}  // namespace

// Holds the pages that are there, counts what is needed and makes room: after this nothing of the
// start can fail. False: the operation has been answered: no_space when L2 could not take it even
// if it were empty, and nothing was evicted for it; busy when there is no room now.
bool Verbs::admit_store(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  Family& family = core_.family_of(op.session);
  const bool keep_lease = op.has_flag(kFlagKeepLease);
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  RoomAsked asked;
  for (std::uint32_t i = pages; i-- > 0;) {
    const PageId page = page_at(index, i);
    if (page != kNoPage) {
      works_.pages.hold(page);
      op.held.push_back(page);
    } else {
      ++asked.new_pages;
    }
    for_each_part(core_, op, i, [&](std::uint16_t kind, std::uint32_t part) {
      ++asked.items;
      const bool copy =
          page == kNoPage || needs_copy(core_.catalog->part(core_.catalog->ref(page, part)),
                                        keep_lease);
      asked.frames[kind] += copy ? 1U : 0U;
    });
  }
  if (!works_.pages.can_fit(family, asked.frames)) {
    ends_.finish(index, Code::no_space, Ack::done);
    return false;
  }
  if (!find_room(index, asked)) {
    return false;
  }
  const bool room = has_room(index, asked) && (!keep_lease || open_lease(index));
  if (!room) {
    ends_.finish(index, Code::busy, Ack::done);
  }
  return room;
}

void Verbs::start_store(std::uint32_t index) {
  if (!admit_store(index)) {
    return;
  }
  Op& op = core_.ops.op(index);
  const std::uint32_t use = op.use;
  op.copied_in.assign(op.request.pages.size(), 0);
  op.store_sequence = ++core_.sessions.find(op.session)->store_sequence;
  const auto pages = static_cast<std::uint32_t>(op.request.pages.size());
  for (std::uint32_t i = pages; i-- > 0;) {
    start_store_page(index, HC_MUTANT(head_older_than_tail) ? pages - 1 - i : i);
  }
  works_.copies.turn();
  if (op.in_use && op.use == use && !op.ending) {
    ends_.drop_holds(index);
    progress_store(index);
  }
}

void Verbs::start_store_page(std::uint32_t index, std::uint32_t i) {
  Op& op = core_.ops.op(index);
  const PageEntry& entry = op.request.pages[i];
  const EngineSession* session = core_.sessions.find(op.session);
  const PageId page = works_.pages.find_or_create(session->space, entry.hash);
  HC_CHECK(page != kNoPage);
  works_.pages.hold(page);
  op.held.push_back(page);
  touch(page);  // known or new: in this order the tail is older than the head
  core_.catalog->page(page).owner = entry.owner;
  const bool admitted = works_.admission.use(op, page);
  if (op.lease != kNoLease) {
    add_to_lease(index, page, entry.owner);
  }
  for_each_part(core_, op, i, [&](std::uint16_t kind, std::uint32_t part) {
    const std::uint32_t item_index = core_.ops.new_item(index);
    Item& item = core_.ops.item(item_index);
    item.part = core_.catalog->ref(page, part);
    item.kind = kind;
    item.page_index = i;
    item.admitted = admitted;
    start_store_part(index, item_index, item.part);
  });
}

void Verbs::start_store_part(std::uint32_t index, std::uint32_t item_index, PartRef ref) {
  Op& op = core_.ops.op(index);
  Item& item = core_.ops.item(item_index);
  Part& part = core_.catalog->part(ref);
  const auto final_ack = static_cast<Ack>(op.request.entry.ack);
  const bool copy = needs_copy(part, op.has_flag(kFlagKeepLease));
  if (part.l3 == L3State::absent) {
    start_spill(ref, item.admitted);
  }
  const bool held_back = core_.catalog->held_back().contains(ref.value);
  op.held_back = op.held_back || (held_back && final_ack > Ack::resident);
  item.needs_resident = copy || part.l2 == L2State::filling;
  item.needs_written = !held_back && final_ack >= Ack::written && part.l3 < L3State::written;
  item.needs_durable = !held_back && final_ack >= Ack::durable && part.l3 < L3State::durable;
  op.resident_left += item.needs_resident ? 1U : 0U;
  op.written_left += item.needs_written ? 1U : 0U;
  op.durable_left += item.needs_durable ? 1U : 0U;
  if (!copy) {
    if (item.needs_resident || item.needs_written || item.needs_durable) {
      core_.ops.add_waiter(*core_.catalog, item_index);
    } else {
      core_.ops.free_item(item_index);
    }
    return;
  }
  const auto frame = core_.frames_of(ref).take();
  HC_CHECK(frame.has_value());
  begin_fill(item_index, *frame);
}

// The part is not stored. In memory it goes to disk now or is held back; otherwise that is decided
// when it is there.
void Verbs::start_spill(PartRef ref, bool admitted) {
  Part& part = core_.catalog->part(ref);
  if (part.l2 != L2State::resident) {
    works_.pages.unsettle(ref);
    part.spill_wanted = part.spill_wanted || admitted;
  } else if (core_.catalog->held_back().contains(ref.value)) {
    if (admitted) {
      works_.admission.spill(core_.catalog->page_of(ref));
    }
  } else if (admitted) {
    works_.pages.unsettle(ref);
    works_.spiller.enqueue(ref);
  } else {
    works_.admission.hold_back(ref);  // an earlier spill of it has failed
  }
}

// From here on the item's own memory fills the part.
void Verbs::begin_fill(std::uint32_t item_index, FrameId frame) {
  Item& item = core_.ops.item(item_index);
  Part& part = core_.catalog->part(item.part);
  HC_CHECK(part.l2 == L2State::absent);
  part.frame = frame;
  part.l2 = L2State::filling;
  part.spill_wanted = part.spill_wanted || item.admitted;
  item.role = ItemRole::filler;
  item.frame = frame;
  Op& op = core_.ops.op(item.op);
  op.pages_stored += op.copied_in[item.page_index] == 0 ? 1U : 0U;
  op.copied_in[item.page_index] = 1;
  works_.pages.busy(core_.catalog->page_of(item.part));
  works_.copies.copy(item_index);
}

std::span<const std::uint8_t> Verbs::metadata_of(const Op& op, std::uint32_t index) const {
  const PageEntry& entry = op.request.pages[index];
  return std::span(op.request.metadata).subspan(entry.metadata_offset, entry.metadata_bytes);
}

// The frame was not filled: nobody will ever see what is in it.
void Verbs::discard_fill(PartRef ref) {
  ++core_.counters.stores_discarded;
  works_.pages.drop_frame(ref);
}

// The part is the next store's that waits for it, or stays without these bytes.
void Verbs::fail_store_copy(std::uint32_t item_index, Code code) {
  const Item item = core_.ops.item(item_index);
  const PageId page = core_.catalog->page_of(item.part);
  const bool doomed = core_.catalog->page(page).doomed;
  core_.ops.free_item(item_index);
  // Its own operation first: it may wait for this very fill with another item.
  core_.ops.op(item.op).ending ? ends_.continue_end(item.op)
                               : ends_.end(item.op, doomed ? Code::retry : code);
  discard_fill(item.part);
  refill(item.part, Code::retry);
  works_.pages.drop_busy(page);
  works_.forget.settle(page);
  works_.pages.end_if_empty(page);
}

void Verbs::store_copy_done(std::uint32_t item_index, Code code, std::uint32_t crc) {
  const std::uint32_t index = core_.ops.item(item_index).op;
  Op& op = core_.ops.op(index);
  Item& item = core_.ops.item(item_index);
  if (item.abandoned) {
    end_abandoned(item_index);
    return;
  }
  const PartRef ref = item.part;
  const PageId page = core_.catalog->page_of(ref);
  Part& part = core_.catalog->part(ref);
  HC_CHECK(part.l2 == L2State::filling && !part.reading);
  HC_CHECK(part.frame == item.frame);
  const bool doomed = core_.catalog->page(page).doomed;
  if (HC_MUTANT(late_store_published) && op.ending && !doomed && code == Code::ok) {
    core_.ops.free_item(item_index);
    ends_.continue_end(index);
    publish_fill(ref, crc, {});
    works_.pages.drop_busy(page);
    part_resident(ref);
    return;
  }
  if (op.ending || doomed || code != Code::ok) {
    fail_store_copy(item_index, code);
    return;
  }
  publish_fill(ref, crc, metadata_of(op, item.page_index));
  op.bytes += core_.payload_bytes(ref);
  item.role = ItemRole::waiter;
  item.frame = kNoFrame;
  core_.ops.add_waiter(*core_.catalog, item_index);
  core_.catalog->held_back().contains(ref.value) ? drop_needs(ref) : renew_needs(ref);
  works_.pages.drop_busy(page);
  part_resident(ref);
  // A stored copy may have gone on to its commit while this item was copying and heard nothing.
  if (part.l3 == L3State::durable) {
    part_durable(ref);
  }
}

// The frame holds the bytes of its page: everybody may see it, and it goes on to the disk.
void Verbs::publish_fill(PartRef ref, std::uint32_t crc, std::span<const std::uint8_t> metadata) {
  FramePool& frames = core_.frames_of(ref);
  const PageId page = core_.catalog->page_of(ref);
  Part& part = core_.catalog->part(ref);
  part.payload_crc = crc;
  BlobHeader header{};
  const std::uint32_t at = core_.catalog->part_of(ref);
  header.kind = core_.family_of(ref).kind_of(at);
  header.payload_bytes = core_.payload_bytes(ref);
  header.page_hash = core_.catalog->page(page).hash;
  header.payload_crc = crc;
  header.space_tag = core_.spaces->space(core_.catalog->page(page).space).tags[at];
  header.slot = kNone32;
  const BlobSeed seed = core_.superblock->seed_of(core_.catalog->page(page).space);
  encode_header_block({frames.header(part.frame), kBlockBytes}, header, seed, metadata);
  frames.publish(part.frame);
  part.l2 = L2State::resident;
  const bool spills = std::exchange(part.spill_wanted, false);
  if (part.l3 == L3State::absent) {  // also if a stored copy was lost while this one was made
    start_spill(ref, spills);
  }
  works_.pages.publish_status(page);
}

// An item of a store has come as far as `ack`.
void Verbs::store_reached(std::uint32_t item_index, Ack ack) {
  Item& item = core_.ops.item(item_index);
  const std::uint32_t index = item.op;
  Op& op = core_.ops.op(index);
  if (op.verb() != Verb::store) {
    return;
  }
  const auto reach = [](bool& needs, std::uint32_t& left) {
    if (needs) {
      HC_CHECK(left > 0);
      needs = false;
      --left;
    }
  };
  if (ack == Ack::resident) {
    reach(item.needs_resident, op.resident_left);
  }
  if (ack >= Ack::written) {
    reach(item.needs_written, op.written_left);
  }
  if (ack >= Ack::durable) {
    reach(item.needs_durable, op.durable_left);
  }
  free_if_done(item_index);
  progress_store(index);
}

// Every part is in memory, one of them is held back there: the store ends, its lease stays.
void Verbs::settle_held_back(std::uint32_t index) {
  const std::vector<std::uint32_t> items = core_.ops.op(index).items;
  for (const std::uint32_t item : items) {
    ends_.free_item(item);
  }
  ends_.finish(index, Code::not_durable, Ack::resident);
}

void Verbs::progress_store(std::uint32_t index) {
  Op& op = core_.ops.op(index);
  const auto final_ack = static_cast<Ack>(op.request.entry.ack);
  const std::uint32_t use = op.use;
  while (op.in_use && op.use == use && !op.ending && op.held.empty()) {
    const Ack next = static_cast<Ack>(static_cast<std::uint8_t>(op.acked) + 1);
    const std::uint32_t left = next == Ack::resident  ? op.resident_left
                               : next == Ack::written ? op.written_left
                                                      : op.durable_left;
    if (left > 0) {
      return;
    }
    op.acked = next;
    if (op.held_back) {
      settle_held_back(index);
      return;
    }
    if (next == final_ack) {
      ends_.finish(index, Code::ok, next);
      return;
    }
    if (op.has_flag(kFlagEveryAck)) {
      ends_.report(index, next);
    }
  }
}

}  // namespace hc
