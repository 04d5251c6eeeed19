// SPDX-License-Identifier: Apache-2.0
// rank: an engine rank as an engine would write it, over the C interface of the client library.
//
// Page `n` holds a stream of bytes that follows from n, the shard and the weights, so whoever loads
// it knows every byte. Owner thread: one. No call of it waits without a bound.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/ctl/rank_region.h"
#include "client/hicache.h"
#include "proto/space.h"

namespace hc::test {

// Pages first, first + 1, ...; page first + i lies in row `row` + i.
struct Keys {
  std::uint64_t first = 0;
  std::uint32_t count = 1;
  std::uint32_t row = 0;
};

struct RankOptions {
  std::string socket;
  std::string group = "engine";
  std::uint16_t rank = 0;   // and the tensor coordinate of its shard
  std::uint16_t world = 1;
  std::uint32_t rows = 64;
  std::uint32_t payload_bytes = 24'000;  // no multiple of a disk block
  std::string weight_version = "1";
  std::uint32_t attach_timeout_ms = 30'000;
  std::uint32_t quota_pages = 0;  // guaranteed in L2
  std::uint32_t deadline_ms = 20'000;
  BenchDevice device = BenchDevice::host;  // cuda: rows in device memory, each operation behind
                                           // what the rank has queued there
  std::uint32_t transfer = HICACHE_TRANSFER_AUTO;
  std::uint32_t open_flags = 0;  // HICACHE_OPEN_*
};

// The space of every test: one sharded kind.
SpaceDescriptor make_space(const RankOptions& options);
std::array<std::uint8_t, 32> page_key(std::uint64_t page);

class Rank {
 public:
  // Codes beside those of hicache.h: an operation without a terminal completion.
  static constexpr hicache_code kNeverEnded = -1;
  static constexpr std::uint32_t kDeadlineMs = 20'000;

  explicit Rank(RankOptions options);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank();

  // Attaches and registers region 0.
  hicache_code open();
  hicache_code register_region();  // as open does
  hicache_code close(std::uint32_t timeout_ms = kDeadlineMs);
  hicache_client* client() const { return client_; }
  const RankOptions& options() const { return options_; }

  // Without waiting. A store's rows are filled before, a load's spoiled.
  hicache_code submit(std::uint8_t verb, const Keys& keys, std::uint64_t& op_id,
                      std::uint8_t ack = HICACHE_ACK_DONE, std::uint32_t flags = 0);
  // The terminal completion.
  hicache_completion finish(std::uint64_t op_id);

  hicache_completion store(const Keys& keys, std::uint8_t ack = HICACHE_ACK_RESIDENT);
  hicache_completion load(const Keys& keys);
  hicache_completion reload(const Keys& keys);
  hicache_completion pin(const Keys& keys);
  hicache_completion free_pages(const Keys& keys);
  hicache_completion release(std::uint64_t lease);
  hicache_completion flush();
  // The rank goes on with other weights, without a new region; the bytes of its pages differ.
  hicache_code switch_to(const std::string& weight_version,
                         std::uint32_t timeout_ms = kDeadlineMs);

  // Pages at the head of `keys` that are there.
  std::uint32_t present(const Keys& keys) const;
  // Of the rows that a load has filled.
  std::uint64_t wrong_bytes(const Keys& keys) const;
  // Of the pages of a lease; bytes of a view that did not stay intact count as none.
  std::uint64_t wrong_bytes_in_lease(std::uint64_t lease, const Keys& keys) const;
  // Waits until the client serves (again).
  bool wait_serving() const;

  // Good until the next call.
  std::vector<hicache_page> pages_of(const Keys& keys) const;
  // As before a store of them.
  void fill_rows(const Keys& keys);

 private:
  hicache_completion run(std::uint8_t verb, const Keys& keys, std::uint8_t ack,
                         std::uint32_t flags = 0);
  StreamKey stream_of(std::uint64_t page) const;

  RankOptions options_;
  SpaceDescriptor space_;
  std::unique_ptr<RankRegion> region_;
  hicache_client* client_ = nullptr;
  mutable std::vector<std::array<std::uint8_t, 32>> keys_;
  std::map<std::uint64_t, hicache_completion> ended_;
};

}  // namespace hc::test
