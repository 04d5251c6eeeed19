// SPDX-License-Identifier: Apache-2.0
// monotonic: the clock that durations are measured with.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace hc {

inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

inline std::uint64_t monotonic_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Returns at that moment of monotonic_ns, or at once if it is over.
inline void sleep_until_ns(std::uint64_t moment_ns) {
  std::this_thread::sleep_until(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(moment_ns)));
}

}  // namespace hc
