// SPDX-License-Identifier: Apache-2.0
// trace: a list of requests in the Mooncake format, each with the ids of its prefix blocks.
//
// Owner thread: any, one at a time. Invariants: ids are numbered densely in the order of their
// first appearance; `blocks` holds those numbers; no block appears twice in one request. A file is
// outside data: what is wrong with it is one line with file, line, field, value, allowed range.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/result.h"

namespace hc {

inline constexpr std::uint64_t kTraceTokensMax = 1ULL << 31;
inline constexpr std::uint64_t kTraceBlocksPerRequestMax = 65536;
inline constexpr std::uint64_t kTraceIdMax = (1ULL << 63) - 1;
inline constexpr std::uint64_t kTraceTimestampMax = 1ULL << 53;

struct TraceRequest {
  std::uint64_t timestamp_ms = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t first_block = 0;  // index in Trace::blocks
  std::uint64_t block_count = 0;
};

class Trace {
 public:
  // Appends a request. The ids must be distinct; the index of the first repeated one is returned
  // otherwise, and nothing is changed.
  static constexpr std::size_t kAllDistinct = static_cast<std::size_t>(-1);
  std::size_t add(const TraceRequest& request, std::span<const std::uint64_t> ids);

  std::size_t request_count() const { return requests_.size(); }
  const TraceRequest& request(std::size_t index) const { return requests_[index]; }
  std::span<const std::uint32_t> blocks_of(std::size_t index) const;
  std::uint64_t reference_count() const { return blocks_.size(); }
  std::uint32_t block_count() const { return static_cast<std::uint32_t>(ids_.size()); }
  std::uint64_t id_of(std::uint32_t block) const { return ids_[block]; }
  std::uint64_t longest_request() const { return longest_request_; }

 private:
  std::vector<TraceRequest> requests_;
  std::vector<std::uint32_t> blocks_;
  std::vector<std::uint64_t> ids_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
  std::vector<std::uint64_t> seen_in_;  // per block: 1 + the last request that named it
  std::uint64_t longest_request_ = 0;
};

// Reads at most `requests_max` requests; 0 means all. An empty trace is an error.
Result<Trace> read_trace(const std::string& path, std::uint64_t requests_max);
Result<void> write_trace(const std::string& path, const Trace& trace);

}  // namespace hc
