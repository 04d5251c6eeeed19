// SPDX-License-Identifier: Apache-2.0
// latency: a histogram of durations that needs no memory of its own, so that it can lie in memory
// shared by processes.
//
// Owner thread: one writer; read it when the writer is at rest. Invariants: a bucket's bounds
// differ by less than 1/32 (3.2 %), so a percentile is at most that much too high; the largest is
// exact.
#pragma once

#include <array>
#include <cstdint>

namespace hc {

class LatencyHistogram {
 public:
  void add(std::uint64_t elapsed_ns);
  void merge(const LatencyHistogram& other);

  std::uint64_t count() const { return count_; }
  std::uint64_t max_ns() const { return max_ns_; }
  // The upper bound of the bucket that holds the given share of samples; 0 without samples.
  std::uint64_t percentile_ns(double share) const;

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr std::uint64_t kSubCount = 1ULL << kSubBits;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) * kSubCount;

  static std::size_t bucket_of(std::uint64_t elapsed_ns);
  static std::uint64_t upper_bound_of(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ns_ = 0;
};

}  // namespace hc
