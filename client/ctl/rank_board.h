// SPDX-License-Identifier: Apache-2.0
// rank_board: memory that the ranks write and the bench reads: counts, latencies, and two facts per
// block.
//
// Owner thread: each rank writes its own part; the bench reads it only between a reply and the next
// command, so the message orders the accesses. The memory is made before the ranks are forked.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "client/ctl/latency.h"
#include "proto/result.h"

namespace hc {

// Where the first wrong byte was found.
struct WrongPlace {
  std::uint64_t hash_id = 0;
  std::uint64_t offset = 0;  // in the payload
  std::uint64_t request = 0;
  std::uint32_t kind = 0;
  std::uint32_t shard = 0;
};

struct RankTotals {
  LatencyHistogram exists;
  LatencyHistogram load;
  LatencyHistogram store_resident;
  LatencyHistogram store_durable;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t checked_bytes = 0;
  std::uint64_t loaded_bytes = 0;      // as the completions say
  std::uint64_t stored_bytes = 0;
  std::uint64_t load_ns = 0;           // submit to completion, checking left out
  std::uint64_t store_ns = 0;          // submit to resident, making the bytes left out
  std::uint64_t throttled_ns = 0;      // waits for a free operation slot
  std::uint64_t pages_from_l2 = 0;
  std::uint64_t pages_from_l3 = 0;
  std::uint64_t pages_stored = 0;
  std::uint64_t retries = 0;           // busy or retry, tried again
  std::uint64_t late = 0;
  std::uint64_t loads_short = 0;       // loads that brought fewer pages than were promised
  std::uint64_t stores_refused = 0;
  std::uint64_t stores_not_durable = 0;
  WrongPlace first_wrong;
};

class RankBoards {
 public:
  static Result<RankBoards> make(std::uint32_t ranks, std::uint32_t block_count);
  RankBoards(RankBoards&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_),
        stride_(other.stride_),
        block_count_(other.block_count_) {}
  RankBoards& operator=(RankBoards&&) = delete;
  ~RankBoards() {
    if (memory_ != nullptr) {
      ::munmap(memory_, bytes_);
    }
  }

  RankTotals& totals(std::uint32_t rank) const;
  // Per block: 1 + the last request whose store was acknowledged durable.
  std::span<std::uint32_t> acked(std::uint32_t rank) const;
  // Per block: 1 if the last probe found it.
  std::span<std::uint8_t> present(std::uint32_t rank) const;

 private:
  RankBoards(void* memory, std::size_t bytes, std::size_t stride, std::uint32_t block_count)
      : memory_(memory), bytes_(bytes), stride_(stride), block_count_(block_count) {}
  std::byte* board(std::uint32_t rank) const {
    return static_cast<std::byte*>(memory_) + rank * stride_;
  }

  void* memory_;
  std::size_t bytes_;
  std::size_t stride_;
  std::uint32_t block_count_;
};

}  // namespace hc
