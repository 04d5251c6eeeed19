// SPDX-License-Identifier: Apache-2.0
// clock: the seam for time. The loop reads it once per turn; below it time stands still.
#pragma once

#include <compare>
#include <cstdint>

namespace hc {

// Nanoseconds of a monotonic clock; only differences mean anything.
struct Instant {
  std::int64_t ns = 0;
  friend auto operator<=>(const Instant&, const Instant&) = default;
  friend Instant operator+(Instant at, std::int64_t delta_ns) { return {at.ns + delta_ns}; }
  friend std::int64_t operator-(Instant later, Instant earlier) { return later.ns - earlier.ns; }
};

inline constexpr std::int64_t kNsPerMs = 1'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() = 0;
};

}  // namespace hc
