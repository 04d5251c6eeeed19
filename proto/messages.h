// SPDX-License-Identifier: Apache-2.0
// messages: requests and completions that travel in the rings of a session, and the areas of an
// operation slot beside them.
//
// The client picks a free operation slot, fills the slot's area in its own memory file, then
// writes a RequestEntry. The daemon copies entry and area once, into private memory, before it
// judges anything. Answers are CompletionEntry records; exactly one per operation is terminal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/wire_struct.h"

namespace hc {

enum class Verb : std::uint8_t {
  none = 0,
  store = 1,         // region -> L2 -> L3
  reload = 2,        // L3 -> L2, under a lease; all pages or none
  load = 3,          // L2 or L3 -> region
  pin = 4,           // lease on pages that are resident; all pages or none
  release = 5,       // end a lease
  free_object = 6,   // forget pages: every kind, every shard of this node
  flush = 7,         // barrier: every earlier store of the node is durable or failed
  cancel = 8,        // end an operation early
  // The rank has made the copies of the operation in this slot, of which `prepared` told it;
  // target_sequence: 0, or a Code if they failed. No operation of its own, and not answered.
  copied = 9,
};
inline constexpr std::uint8_t kVerbs = 10;

// How far a store has come. Values are ordered.
enum class Ack : std::uint8_t {
  none = 0,
  resident = 1,  // in L2; the source memory is the client's again
  written = 2,   // in its slot; reloadable
  durable = 3,   // in the committed index after a flush
  late = 4,      // not terminal: the deadline passed, but a copy may still touch the memory
  done = 5,      // terminal of every verb but store
  prepared = 6,      // not terminal: the frames in the slot's result area are the rank's to copy to
                     // (store) or from (load); answered by Verb::copied
};

// RequestEntry::flags
inline constexpr std::uint8_t kFlagKeepLease = 1;     // store: lease the pages when resident
inline constexpr std::uint8_t kFlagEveryAck = 2;      // store: also report the acks before the last
inline constexpr std::uint8_t kFlagFromLease = 4;     // load: `lease` names the pages, not the area
inline constexpr std::uint8_t kFlagMaxPrefix = 8;     // load: the longest present prefix is enough
// store, load of a cuda region: not before the session's event of this operation slot is reached
inline constexpr std::uint8_t kFlagAwaitEvent = 16;
// RequestEntry::hint; of stores, for write_through_selective: eviction does not use it
inline constexpr std::uint8_t kHintMayContinue = 1;   // the conversation may go on
inline constexpr std::uint8_t kHintOneShot = 2;       // unlikely to be asked for again

struct RequestEntry {
  std::uint8_t verb;
  std::uint8_t flags;
  std::uint8_t ack;            // store: Ack that is terminal (resident, written, durable)
  std::uint8_t hint;
  std::uint8_t priority;       // 0 is ordinary; carried, not used by this version
  std::uint8_t kind_mask;      // bit k: kind k takes part; 0 means every kind
  std::uint16_t op_slot;
  std::uint32_t op_sequence;   // the client's count of uses of this slot; echoed
  std::uint32_t deadline_ms;   // from acceptance; 1..kDeadlineMsMax
  std::uint32_t page_count;    // PageEntry records in the slot's area
  std::uint32_t region;        // store, load: registered region
  std::uint64_t lease;         // release, load from lease
  std::uint16_t target_slot;   // cancel
  std::uint16_t reserved;      // zero
  std::uint32_t target_sequence;
  std::uint32_t owner_base;    // owner of page i = (base + i / stride) % world when stride > 0
  std::uint32_t owner_stride;
  std::uint64_t client_data;   // opaque; echoed
  std::uint64_t reserved2;     // zero
};
static_assert(WireStruct<RequestEntry> && sizeof(RequestEntry) == 64);
static_assert(offsetof(RequestEntry, lease) == 24 && offsetof(RequestEntry, client_data) == 48);

struct PageEntry {
  PageHash hash;
  std::uint32_t row;               // page row in the region (store, load)
  std::uint16_t owner;             // shard that owns the page, for owned kinds
  std::uint16_t metadata_bytes;    // 0: none
  std::uint32_t metadata_offset;   // in the metadata area of the slot
  std::uint32_t reserved;          // zero
};
static_assert(WireStruct<PageEntry> && sizeof(PageEntry) == 48);

struct CompletionEntry {
  std::uint8_t verb;
  std::uint8_t ack;                // Ack
  std::uint16_t op_slot;
  std::uint32_t op_sequence;
  std::int32_t code;               // Code
  std::uint32_t terminal;          // 1: the last answer of this operation
  std::uint64_t client_data;
  std::uint64_t lease;             // granted lease, or 0
  std::uint32_t page_count;        // leading pages the answer speaks of
  std::uint32_t pages_from_l2;     // load, reload: pages that were resident
  std::uint32_t pages_from_l3;     // load, reload: pages with a part read from disk
  std::uint32_t pages_stored;      // store: pages with a part copied (not deduplicated)
  std::uint64_t bytes;             // payload bytes copied or read for this operation
  std::uint64_t store_sequence;    // store: the session's count of stores, from 1
};
static_assert(WireStruct<CompletionEntry> && sizeof(CompletionEntry) == 64);
static_assert(offsetof(CompletionEntry, client_data) == 16);

// Where a leased payload lies in L2; one per (page, kind) in the result area of a slot, at
// page_index * kKindsMax + kind. frame is kNone32 where the kind has no part here.
struct FrameRef {
  std::uint32_t frame;
  std::uint16_t kind;
  std::uint16_t reserved;
  std::uint64_t generation;  // must be unchanged after the reader's copy
};
static_assert(WireStruct<FrameRef> && sizeof(FrameRef) == 16);

}  // namespace hc
