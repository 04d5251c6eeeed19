// SPDX-License-Identifier: Apache-2.0
// operation: one request of a client on its way, and its items: one per (page, kind) it waits for.
//
// Life of an operation, as seen by its client:
//
//   accepted -> running -> ended                      (one terminal completion)
//   accepted -> running -> late -> ended              (deadline or cancel while a copy could still
//                                                      touch client memory)
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/os/clock.h"
#include "proto/messages.h"
#include "proto/status.h"

namespace hc {

// What the session layer has judged and copied into private memory.
struct OpRequest {
  RequestEntry entry{};
  std::vector<PageEntry> pages;
  std::vector<std::uint8_t> metadata;  // what the pages' metadata offsets point into
};

struct Op {
  OpRequest request;
  SessionId session{};
  Instant deadline{};
  Code code = Code::ok;              // the first failure
  Ack acked = Ack::none;             // store: what has been reached
  bool in_use = false;
  bool ending = false;               // failed, timed out or cancelled: nothing new starts
  bool dropping = false;             // its copies are being taken back right now
  bool late_sent = false;
  bool stalled = false;              // load: wants a frame and got none
  bool waits = false;                // of a session with quota: for room, holding nothing
  bool awaits_client = false;        // asked whether the client's work on its memory is done
  bool client_ready = false;         // it is
  std::uint32_t use = 0;             // raised at every reuse of the record
  std::uint32_t rank_pages = 0;      // counted in its family's `with_ranks`
  std::uint32_t copies = 0;          // parked, queued or running copies on client memory
  std::uint32_t resident_left = 0;   // store: items that have not reached the state
  std::uint32_t written_left = 0;
  std::uint32_t durable_left = 0;
  std::uint32_t next_page = 0;       // load: where to go on
  std::uint32_t next_kind = 0;
  std::uint32_t miss_page = kNone32; // load: first page that is not there
  std::uint32_t waiting_parts = 0;   // reload: parts not resident yet
  std::uint32_t free_left = 0;       // free_object: pages not gone yet
  std::uint64_t barrier = 0;         // flush: parts up to here
  std::uint64_t losses_told = 0;     // flush: what its session knew when it began
  LeaseId lease = kNoLease;
  std::uint64_t store_sequence = 0;
  std::uint32_t pages_from_l3 = 0;
  std::uint32_t pages_stored = 0;
  std::uint64_t bytes = 0;
  bool held_back = false;            // store: a part stays off the disk, and more was asked for
  bool lease_reported = false;       // the client knows the lease: it stays when the rest fails
  std::vector<std::uint32_t> items;  // items in use
  std::vector<std::uint32_t> parked; // those whose copies wait for the client
  std::vector<std::uint32_t> for_rank;   // whose copies its rank is still to be told of
  std::vector<std::uint32_t> with_rank;  // it was told, and has not answered
  std::vector<PageId> held;          // pages this operation holds
  std::vector<std::uint8_t> from_disk;   // per page: 1 when a part was read from disk
  std::vector<std::uint8_t> copied_in;   // store, per page: 1 when a part is this operation's copy
  Verb verb() const { return static_cast<Verb>(request.entry.verb); }
  bool has_flag(std::uint8_t flag) const { return (request.entry.flags & flag) != 0; }
};

enum class ItemRole : std::uint8_t {
  filler,  // store: this operation's memory fills the part
  waiter,  // somebody else fills it, or it is on its way to disk; a store may become its filler
  copier,  // load: the part is being copied out
};

struct Item {
  std::uint32_t op = kNone32;
  std::uint32_t use = 0;             // raised at every reuse of the record
  PartRef part{};
  std::uint32_t previous = kNone32;  // on the part's list of waiters
  std::uint32_t next = kNone32;
  std::uint32_t page_index = 0;
  std::uint32_t place = 0;           // in its operation's list of items
  std::uint16_t kind = 0;
  FrameId frame = kNoFrame;          // filler: where its copy goes
  ItemRole role = ItemRole::waiter;
  bool in_use = false;
  bool on_list = false;
  bool holds_page = false;           // load: its page is held until the item ends
  bool admitted = true;              // store: the policy lets its part go to disk at once
  bool abandoned = false;            // filler: only its frame is left to it, the part goes on
  bool needs_resident = false;
  bool needs_written = false;
  bool needs_durable = false;
};

}  // namespace hc
