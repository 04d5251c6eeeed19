// SPDX-License-Identifier: Apache-2.0
// split_mix: draws that are equal on every machine, unlike those of the standard library.
//
// Owner thread: any; a value of its own for each user.
#pragma once

#include <cstdint>

namespace hc {

class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t word = state_;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
    return word ^ (word >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  // From half to one and a half of `mean`.
  std::uint64_t around(std::uint64_t mean) { return mean / 2 + below(mean + 1); }

 private:
  std::uint64_t state_;
};

}  // namespace hc
