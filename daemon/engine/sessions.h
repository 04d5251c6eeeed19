// SPDX-License-Identifier: Apache-2.0
// sessions: what the engine knows of a connected client: its space, shard and registered memory.
//
// Owner: the reactor thread. Mapping and unmapping of client memory is the session layer's; the
// engine says when nothing touches a region any more.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/engine/flush_ledger.h"
#include "daemon/gpu/copier.h"
#include "proto/handshake.h"
#include "proto/ids.h"

namespace hc {

struct RegionLayout {
  bool present = false;
  std::vector<LayoutRun> runs;
};

struct EngineRegion {
  bool present = false;
  MappingId mapping = kHostMapping; // of the copier; host memory has none
  std::uint64_t base = 0;           // of the region: where the daemon has it, or from the mapping's
                                    // begin
  bool by_rank = false;             // its client copies between it and our frames itself
  bool has_events = false;          // its client can say when its own work there is done
  std::uint64_t size_bytes = 0;
  std::uint32_t rows = 0;
  std::uint32_t users = 0;          // operations that name it and have not ended
  std::array<RegionLayout, kKindsMax> layouts;
};

struct QuotaGroup;

// Of a session whose group has a guaranteed quota (quota.h). By owner, as often as they are named:
struct SessionQuota {
  QuotaGroup* group = nullptr;          // null: no quota
  std::vector<std::uint32_t> leased;    // pages of its leases
  std::vector<std::uint32_t> asked;     // pages of its operations that wait for room
  std::uint32_t waiting = 0;            // operations that wait
  std::uint32_t leases_asked = 0;       // those of them that want a lease
  std::uint64_t leases_max = 0;         // a page each
};

struct EngineSession {
  bool open = false;
  bool ended = false;               // no new operation; what runs is being cancelled
  bool switches = false;            // ended only until it is bound to its next space
  SpaceNo space{};
  std::uint16_t shard = 0;
  std::uint64_t store_sequence = 0;
  std::uint64_t losses_told = 0;    // by its flushes; it hears of no loss before its time
  std::uint32_t ops = 0;
  std::uint32_t leases = 0;
  std::uint64_t leased_pages = 0;       // as often as its leases name them
  std::uint32_t incarnation = 0;
  std::string group;                // of its engine; empty: none
  SessionQuota quota;
  std::array<std::uint32_t, kOpSlotsPerSession> op_of_slot{};  // kNone32: free
  std::array<EngineRegion, kRegionsPerSession> regions;
};

class SessionTable {
 public:
  SessionTable(std::uint32_t sessions_max, const FlushLedger& ledger);

  // Nothing when the table is full.
  SessionId open(SpaceNo space, std::uint16_t shard);
  void close(SessionId session);  // no operation, no lease left
  // Null for a session that is not open.
  EngineSession* find(SessionId session);
  std::vector<SessionId> all() const;
  std::uint32_t open_count() const { return open_count_; }

  static constexpr SessionId kNoSession{kNone32};

 private:
  std::vector<EngineSession> sessions_;
  const FlushLedger& ledger_;
  std::uint32_t open_count_ = 0;
};

}  // namespace hc
