// SPDX-License-Identifier: Apache-2.0
// prng: the only source of chance in the simulation. Integers only, the same under every compiler.
//
// Two draws never stand in one argument list: their order would be the compiler's choice.
#pragma once

#include <cstdint>

namespace hc::sim {

class Prng {
 public:
  explicit Prng(std::uint64_t seed) : state_(seed) {}

  // SplitMix64.
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

  // 0 .. bound - 1; 0 when bound is 0.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  std::uint32_t below32(std::uint64_t bound) { return static_cast<std::uint32_t>(below(bound)); }
  // Both ends included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }
  std::uint32_t between32(std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(between(low, high));
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  bool percent(std::uint64_t p) { return below(100) < p; }
  bool per_10k(std::uint64_t p) { return p != 0 && below(10'000) < p; }

  // An independent stream: draws here do not move this one.
  Prng stream(std::uint64_t number) const {
    Prng other(state_ ^ (number * 0xD1342543DE82EF95ULL + 0x632BE59BD9B4E019ULL));
    return Prng(other.next());
  }

 private:
  std::uint64_t state_;
};

}  // namespace hc::sim
