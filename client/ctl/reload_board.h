// SPDX-License-Identifier: Apache-2.0
// reload_board: memory that the ranks of a bench with reloads write and the bench reads: what was
// counted, when answers came, and what the model needs to know.
//
// Owner thread: each rank writes its own part, rank 0 the events; the bench reads when the ranks
// have answered that they are done. The memory is made before the ranks are forked.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "client/ctl/reload_plan.h"
#include "proto/result.h"

namespace hc {

class EngineBus;

// Equal on all ranks that live to the end: anything else is a divergence that nobody noticed.
struct UniformTotals {
  std::uint64_t ticks = 0;
  std::uint64_t reduces = 0;
  std::uint64_t reduces_idle = 0;       // with nothing held and no store unsettled
  std::uint64_t requests = 0;           // served
  std::uint64_t aborts = 0;
  std::uint64_t pages_referenced = 0;
  std::uint64_t pages_l1 = 0;
  std::uint64_t pages_l2 = 0;
  std::uint64_t pages_reload = 0;
  std::uint64_t pages_computed = 0;
  std::uint64_t held = 0;
  std::uint64_t admitted = 0;
  std::array<std::uint64_t, 8> declined{};
  std::array<std::uint64_t, 8> recomputed{};
  std::uint64_t stores = 0;
  std::uint64_t stores_durable = 0;
  std::uint64_t stores_lost = 0;        // settled, and durable nowhere
  std::uint64_t stores_unleased = 0;    // no room for a lease
  std::uint64_t divergences = 0;
  std::uint64_t l2_drops = 0;
  std::uint64_t l1_pages_over = 0;      // the most that L1 was too full by
  friend bool operator==(const UniformTotals&, const UniformTotals&) = default;
};

struct ReloadTotals {
  UniformTotals uniform;
  std::uint64_t load_misses = 0;        // pages that this rank found gone, and computed alone
  std::uint64_t loaded_pages = 0;
  std::uint64_t bytes_reloaded = 0;     // from disk to L2
  std::uint64_t region_bytes_of_reloads = 0;  // that a reload wrote into the rank's memory
  std::uint64_t reads_failed = 0;       // on purpose
  std::uint64_t acks_delayed = 0;
  std::uint64_t stores_refused = 0;     // without a lease, and not accepted
  std::uint64_t hook_calls = 0;
  std::uint64_t joins = 0;
  std::uint64_t joins_failed = 0;
  std::uint64_t learned_ns = 0;         // from a rank's death until a tick said so; 0: no death
  std::uint32_t agreement = 0;          // that is in use
  std::uint32_t is_apart = 0;           // went on without reloads
};

// What the model replays, in this order. Refused: the ranks read nothing back for reasons of their
// own (no room, a failed read), not because a page was not there.
struct ReloadEvent {
  enum class Kind : std::uint32_t { offer, refused, load, store, settled, served };
  Kind kind = Kind::offer;
  std::uint32_t request = 0;
  std::uint32_t first = 0;   // served: pages there anyway; all others: the first page
  std::uint32_t count = 0;   // the same: pages; served: leading pages that were there
  std::uint32_t joined = 0;  // offer: waits for the reload of another request
};

class ReloadBoards {
 public:
  static Result<ReloadBoards> make(std::uint32_t ranks, const Trace& trace);
  ReloadBoards(ReloadBoards&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_),
        ranks_(other.ranks_),
        requests_(other.requests_),
        events_max_(other.events_max_) {}
  ReloadBoards& operator=(ReloadBoards&&) = delete;
  ~ReloadBoards() {
    if (memory_ != nullptr) {
      ::munmap(memory_, bytes_);
    }
  }

  ReloadTotals& totals(std::uint32_t rank) const;
  // Per request: the tick in which the answer to its last reload was taken; 0: none.
  std::span<std::uint64_t> acked(std::uint32_t rank) const;
  // Per request: the tick that admitted it last; of rank 0.
  std::span<std::uint64_t> admitted() const;
  // False: there is no room for it.
  bool add_event(const ReloadEvent& event) const;
  std::span<const ReloadEvent> events() const;

 private:
  ReloadBoards(void* memory, std::size_t bytes, std::uint32_t ranks, std::size_t requests)
      : memory_(static_cast<std::byte*>(memory)),
        bytes_(bytes),
        ranks_(ranks),
        requests_(requests) {}
  std::size_t stamps_offset() const;
  std::size_t events_offset() const;

  std::byte* memory_;
  std::size_t bytes_;
  std::uint32_t ranks_;
  std::size_t requests_;
  std::size_t events_max_ = 0;
};

// What a rank process needs beside RankSetup.
struct ReloadShare {
  const ReloadPlan& plan;
  EngineBus& bus;
  const ReloadBoards& boards;
  int notice_fd;  // an eventfd: rank 0 asks for the next restart of the daemon
};

}  // namespace hc
