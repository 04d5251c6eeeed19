// SPDX-License-Identifier: Apache-2.0
// micro_client: one engine rank of the micro bench: a session, a region of rows, and operations
// kept in flight.
//
// Owner thread: the thread that calls run; open-loop stores use a second one, see micro_commit.
// Invariants: a page is named by a number; its key and the row it lies in follow from that. What
// the rows hold does not matter to a speed: the bytes of a page are those of its row.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/ctl/rank_region.h"
#include "client/hicache.h"
#include "proto/result.h"
#include "proto/space.h"

namespace hc {

using MicroKey = std::array<std::uint8_t, 32>;
// The key of page `number`; as uniform as a hash.
MicroKey micro_key(std::uint64_t number);

// One kind, one shard. `trailing`: only the last 512 pages decide about a hit, so exists_prefix
// looks at every page of a list, present or not; an operation still brings all of its pages.
SpaceDescriptor micro_space(std::uint32_t payload_bytes, bool trailing);

// A stretch of operations: `count` pages, `pages_per_op` each, at most `ops_max` at a time.
struct MicroFlow {
  std::uint8_t verb = HICACHE_VERB_STORE;
  std::uint8_t ack = HICACHE_ACK_NONE;     // of stores: when one counts as done
  std::uint64_t count = 0;
  std::uint32_t pages_per_op = 1;
  std::uint32_t ops_max = 16;
  std::function<std::uint64_t(std::uint64_t at)> page;  // the number of the page at position `at`
};

struct MicroTotals {
  std::uint64_t elapsed_ns = 0;
  std::uint64_t pages = 0;
  std::uint64_t pages_from_l3 = 0;
};

class MicroClient {
 public:
  // The region has `rows` rows, written once, so that no copy meets untouched memory.
  static Result<std::unique_ptr<MicroClient>> open(const std::string& socket,
                                                   const SpaceDescriptor& space,
                                                   const RankRegion::Shape& shape);
  ~MicroClient();
  MicroClient(const MicroClient&) = delete;
  MicroClient& operator=(const MicroClient&) = delete;

  hicache_client* handle() const { return client_; }
  std::uint32_t rows() const { return rows_; }

  // Ends when every operation has ended. One that ends with `busy` is submitted again after the
  // next completion; any other failure is an error. The lease of a reload is released at once.
  Result<MicroTotals> run(const MicroFlow& flow);
  // Everything stored so far is durable.
  Result<void> flush();

 private:
  explicit MicroClient(std::uint32_t rows) : rows_(rows) {}
  Result<void> attach(const std::string& socket, const SpaceDescriptor& space,
                      std::uint32_t flags);
  // False: the daemon or the client is busy now.
  Result<bool> submit(const MicroFlow& flow, std::uint64_t at);
  Result<void> take(const hicache_completion& done, MicroTotals& totals);
  Result<void> pump(std::uint32_t timeout_ms, MicroTotals& totals);

  std::uint32_t rows_;
  std::unique_ptr<RankRegion> region_;
  hicache_client* client_ = nullptr;
  std::uint64_t in_flight_ = 0;
  std::vector<std::uint64_t> leases_;  // to be released
  std::vector<std::uint64_t> repeats_; // positions whose operation found the daemon busy
};

// The library's own line about the last call.
Error client_error(const char* call, hicache_code code);

}  // namespace hc
