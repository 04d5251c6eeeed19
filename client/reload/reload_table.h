// SPDX-License-Identifier: Apache-2.0
// reload_table: the controller's records: candidates, operations, and who waits for them.
//
// Owner thread: the controller's. Everything but what is marked local is equal on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/reload/agreement_vector.h"
#include "client/reload/attach_point.h"
#include "proto/ids.h"

namespace hc {

using RequestId = StrongId<struct RequestTag, std::uint64_t>;   // the engine's own
using ReloadOpId = StrongId<struct ReloadOpTag, std::uint64_t>;  // epoch and number; never again
using CandidateId = StrongId<struct CandidateTag, std::uint64_t>;

// What a request asks for: the pages behind its prefix.
struct Suffix {
  AnchorId anchor;
  std::vector<PageHash> hashes;
  std::vector<std::uint16_t> owners;
  // The token ids of the first page (one more for bigrams), for the anchor guard. Empty where page
  // keys are opaque: then the anchor's hash must be what it was.
  std::vector<std::uint64_t> first_tokens;
  std::optional<PageHash> anchor_hash;  // at the time of the offer

  PageRun run(std::size_t pages) const {
    return {std::span(hashes).first(pages), std::span(owners).first(pages)};
  }
};

struct Candidate {
  CandidateId id{};
  Suffix suffix;
  std::vector<RequestId> waiters;
  std::uint32_t limit = 0;               // pages asked of the index; falls with each round
  std::uint32_t rounds = 0;
  std::optional<std::uint32_t> agreed;   // of the round before
  std::uint32_t count = 0;               // local: usable here, of `limit`
  bool has_waited = false;               // a tick, for room
};

enum class ReloadPhase : std::uint8_t { reading, draining };

struct ReloadOp {
  bool in_use = false;
  ReloadOpId id{};
  ReloadPhase phase = ReloadPhase::reading;
  Suffix suffix;                        // of the agreed length
  OwnerCounts charged;
  std::vector<RequestId> waiters;
  // Local:
  bool answered = false;                // nothing of the daemon touches its frames any more
  bool failed = false;
  LeaseHandle lease = kNoLeaseHandle;
  std::optional<std::uint64_t> deadline_ms;
};

}  // namespace hc
