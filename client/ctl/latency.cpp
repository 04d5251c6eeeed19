// SPDX-License-Identifier: Apache-2.0
// latency: buckets are powers of two, each cut into 32 equal parts.
#include "client/ctl/latency.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hc {

void LatencyHistogram::add(std::uint64_t elapsed_ns) {
  ++buckets_[bucket_of(elapsed_ns)];
  ++count_;
  max_ns_ = std::max(max_ns_, elapsed_ns);
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i] += other.buckets_[i];
  }
  count_ += other.count_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

std::uint64_t LatencyHistogram::percentile_ns(double share) const {
  const double wanted = std::ceil(share * static_cast<double>(count_));
  const std::uint64_t rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) {
      return std::min(upper_bound_of(i), max_ns_);
    }
  }
  return max_ns_;
}

std::size_t LatencyHistogram::bucket_of(std::uint64_t elapsed_ns) {
  if (elapsed_ns < kSubCount) {
    return static_cast<std::size_t>(elapsed_ns);
  }
  const unsigned shift = static_cast<unsigned>(std::bit_width(elapsed_ns)) - 1 - kSubBits;
  const std::uint64_t sub = (elapsed_ns >> shift) - kSubCount;
  return static_cast<std::size_t>((shift + 1) * kSubCount + sub);
}

std::uint64_t LatencyHistogram::upper_bound_of(std::size_t bucket) {
  if (bucket < kSubCount) {
    return bucket;
  }
  const unsigned shift = static_cast<unsigned>(bucket / kSubCount) - 1;
  const std::uint64_t sub = bucket % kSubCount + kSubCount;
  return ((sub + 1) << shift) - 1;
}

}  // namespace hc
