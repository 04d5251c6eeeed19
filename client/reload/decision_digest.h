// SPDX-License-Identifier: Apache-2.0
// decision_digest: 62 bits over everything that a group has decided, in order. Only rank-uniform
// values go in, so that equal ranks have equal digests and a rank that differs is seen (R10).
#pragma once

#include <cstdint>

#include "proto/ids.h"

namespace hc {

class DecisionDigest {
 public:
  void add(std::uint64_t value) {
    // splitmix64's finaliser over a running state: order matters, and every bit reaches all others.
    state_ += 0x9E3779B97F4A7C15ULL + value;
    state_ = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9ULL;
    state_ = (state_ ^ (state_ >> 27)) * 0x94D049BB133111EBULL;
    state_ ^= state_ >> 31;
  }
  void add(const PageHash& hash) {
    for (int word = 0; word < 4; ++word) {
      add(hash.word(word));
    }
  }
  // Fits, negated too, into a word of the vector.
  std::int64_t value() const { return static_cast<std::int64_t>(state_ >> 2); }
  void restart(std::uint64_t epoch) {
    state_ = 0;
    add(epoch);
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace hc
