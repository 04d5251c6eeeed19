// SPDX-License-Identifier: Apache-2.0
// durability_ledger: which acknowledged pages may be absent, and which are lost.
//
// A page is lost when it was acknowledged durable by every rank, is absent now, and a page with an
// older last access is present: a cache that evicts in the order of access never does that. A kill
// of the daemon undoes touches that were not committed yet, so an access is known only as a range
// [low, high]: `high` is the last touch of the harness, `low` the last one that surely survived.
// The ledger accuses only when low(absent) > high(present), whatever the truth inside the ranges.
//
// Owner thread: one. Invariants: low <= high for every block; stamps only grow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hc {

// Per block: 1 + the last request whose store was acknowledged durable; 0 for none.
using AckedRequests = std::span<const std::uint32_t>;

class DurabilityLedger {
 public:
  // The group of each block. Only pages of one group are compared: those that share one eviction
  // order.
  explicit DurabilityLedger(std::vector<std::uint16_t> groups);

  struct Served {
    std::uint64_t request;
    std::span<const std::uint32_t> blocks;
    std::uint64_t loaded;    // leading blocks that were there before: what was stored stays stored
    bool touched;            // every rank's stores were accepted, so the order is certain
    bool stored_new;         // a block was written, not only touched
  };
  // All blocks of a request were stored, from last to first.
  void served(const Served& request);

  // The newest acknowledgements of all ranks, read while they are at rest.
  void take_acks(std::span<const AckedRequests> ranks);
  // The page is durable as far as its engine was told, and has not been stored anew since.
  bool acknowledged(std::uint32_t block) const;
  // Of the last touch, as the harness made it: only its order means something; 0 for none.
  std::uint64_t last_touch(std::uint32_t block) const { return high_[block]; }

  // The daemon was killed after `request_count` requests; call take_acks before. Touches after the
  // last request that is known to be committed may be undone.
  void daemon_killed(std::uint64_t request_count);

  // `present[block]` is not 0 where every rank finds the block. Returns the lost blocks that were
  // not known to be lost before.
  std::uint64_t check(std::span<const std::uint8_t> present);
  std::uint64_t lost_count() const { return lost_count_; }

 private:
  struct RequestEnd {
    std::uint64_t request;
    std::uint64_t end;  // touches up to here belong to this request or earlier ones
    bool stored_new;
  };

  std::uint64_t committed_touches() const;
  bool all_acknowledged(const RequestEnd& request, std::uint64_t begin) const;

  std::vector<std::uint16_t> groups_;
  std::vector<std::uint32_t> touches_;    // block of stamp i + 1; kNoBlock for an uncertain touch
  std::vector<RequestEnd> ends_;
  std::vector<std::uint64_t> high_;
  std::vector<std::uint64_t> low_;
  std::vector<std::uint64_t> base_low_;   // `low_` when the current daemon started
  std::vector<std::uint64_t> born_;       // stamp of the store that the acknowledgement speaks of
  std::vector<std::uint32_t> born_in_;    // 1 + its request; 0: never stored
  std::vector<std::uint32_t> acked_;      // 1 + the last request acknowledged by every rank
  std::vector<std::uint8_t> lost_;
  std::uint64_t segment_begin_ = 0;       // touches before the current daemon started
  std::uint64_t lost_count_ = 0;
};

}  // namespace hc
