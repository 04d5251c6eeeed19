// SPDX-License-Identifier: Apache-2.0
// core: what every part of the engine works on: the seams, the tables and the frozen time.
//
// Owner: the reactor thread. `engine` builds it; the rooms of the engine get a reference.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/engine/catalog.h"
#include "daemon/engine/counters.h"
#include "daemon/engine/eviction.h"
#include "daemon/engine/flush_ledger.h"
#include "daemon/engine/op_table.h"
#include "daemon/engine/quota.h"
#include "daemon/engine/sessions.h"
#include "daemon/engine/slot_order.h"
#include "daemon/engine/spaces.h"
#include "daemon/gpu/copier.h"
#include "daemon/index/index.h"
#include "daemon/os/clock.h"
#include "daemon/pool/lease_table.h"
#include "daemon/store/io_queue.h"
#include "daemon/store/notes_file.h"
#include "daemon/store/superblock_file.h"

namespace hc {

// Takes the answers of operations to their clients. Every call is one completion entry; the ring
// has room for it by reservation.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void complete(SessionId session, const CompletionEntry& entry,
                        std::span<const FrameRef> frames) = 0;
};

struct SpillOptions {
  SpillPolicy policy = SpillPolicy::write_through;
  std::uint32_t min_uses = 2;        // selective
  std::uint32_t dirty_percent = 75;  // write_back: of the frames of a kind
};

struct EngineOptions {
  std::uint32_t commit_interval_ms = 2000;
  std::uint32_t commit_parts = 8192;
  std::uint64_t io_inflight_bytes = 96ULL << 20;  // of each volume
  std::uint32_t io_timeout_ms = 30'000;
  SpillOptions spill;
  std::vector<std::uint64_t> volume_inflight_bytes;  // of each volume; empty: all the same
  bool load_lazily = false;  // a cold start serves before it has read the headers
  bool drop_missing_volumes = false;  // else a start without one of them is refused
  std::uint32_t sessions_max = kSessionsMax;
  std::uint32_t ops_max = kOpsMax;
  std::uint32_t items_max = kItemsMax;
  std::uint32_t leases_max = kLeasesMax;
  std::uint32_t lease_nodes_max = kLeaseNodesMax;
  SpaceSetOptions spaces;
};

// Who a completion of the io queue belongs to; the upper byte of its cookie.
enum class IoOwner : std::uint8_t {
  spill = 1,
  fill = 2,
  zero = 3,
  commit = 4,
  superblock = 5,
  scan = 6,
  note = 7,
  rebuild = 8,
  space = 9,   // of slabs: steps that come and go
};

constexpr std::uint64_t io_cookie(IoOwner owner, std::uint64_t value) {
  return static_cast<std::uint64_t>(owner) << 56 | value;
}
constexpr IoOwner io_owner(std::uint64_t cookie) { return static_cast<IoOwner>(cookie >> 56); }
constexpr std::uint32_t io_value(std::uint64_t cookie) {
  return static_cast<std::uint32_t>(cookie);
}

struct Core {
  Core(IoQueue& io_queue, Index& the_index, Copier& the_copier, CompletionSink& the_sink,
       const EngineOptions& the_options)
      : io(io_queue),
        index(the_index),
        copier(the_copier),
        sink(the_sink),
        options(the_options),
        sessions(the_options.sessions_max, ledger),
        ops(the_options.ops_max, the_options.items_max),
        leases(the_options.leases_max, the_options.lease_nodes_max),
        quotas(*this) {}

  IoQueue& io;
  Index& index;
  Copier& copier;
  CompletionSink& sink;
  EvictionObserver* evictions = nullptr;  // nobody
  EngineOptions options;
  Instant now{};
  Counters counters;
  FlushLedger ledger;                     // before the sessions, which read it
  SessionTable sessions;
  OpTable ops;
  LeaseTable leases;
  QuotaTable quotas;
  SuperblockFile* superblock = nullptr;   // set once the store is open
  NotesFile* notes = nullptr;             // set once the store is open
  SpaceSet* spaces = nullptr;             // set once the store is open
  std::unique_ptr<Catalog> catalog;       // with the first family
  SlotOrder slot_order;
  std::uint64_t next_barrier = 1;         // of the next part that becomes unsettled
  bool rebuilding = false;                // slots are being scanned and may become free
  std::uint64_t moves = 0;                // raised by whatever may let waiting work go on

  // Changes when waiting work may go on: what it waits for moved, or an item of an operation, which
  // a load may wait for, came free.
  std::uint64_t progress() const { return moves + ops.items_freed(); }

  Family& family_of(PageId page) { return spaces->family(catalog->page(page).family); }
  Family& family_of(PartRef ref) { return family_of(catalog->page_of(ref)); }
  Family& family_of(SlabId slab) const { return spaces->family_of(slab); }
  Family& family_of(SpaceNo space) { return spaces->family(spaces->space(space).family); }
  Family& family_of(SessionId session) { return family_of(sessions.find(session)->space); }
  // Of a part that is stored, or on its way there.
  Slab& slab_of(PartRef ref) { return spaces->slabs().slab(catalog->part(ref).slab); }
  FramePool& frames_of(PartRef ref) {
    Family& family = family_of(ref);
    return family.frames[family.kind_of(catalog->part_of(ref))];
  }
  std::uint16_t volume_of_part(PartRef ref) { return slab_of(ref).volume(); }
  std::uint32_t payload_bytes(PartRef ref) {
    return family_of(ref).payload_bytes(catalog->part_of(ref));
  }
  std::uint32_t now_ms() const { return static_cast<std::uint32_t>(now.ns / kNsPerMs); }
};

}  // namespace hc
