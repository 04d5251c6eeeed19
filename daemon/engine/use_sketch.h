// SPDX-License-Identifier: Apache-2.0
// use_sketch: how often a key was used lately, for many more keys than there are pages, in bounded
// memory: a count-min sketch whose counts age.
//
// Owner: the reactor thread.
// Invariants:
//   - an estimate is never below the true count since the key's cells were last halved
//   - a use costs the same always: ageing is spread evenly over the uses
#pragma once

#include <cstdint>
#include <vector>

namespace hc {

class UseSketch {
 public:
  // Remembers about the last `window` uses; bounded below and above.
  explicit UseSketch(std::uint64_t window);

  // Counts one use. The estimate of the key's uses, this one included; at most 255.
  std::uint32_t add(std::uint64_t key);

  std::uint64_t window() const { return cells_.size() / kCellsPerUse; }
  std::uint64_t size_bytes() const { return cells_.size(); }

  static constexpr std::uint64_t kWindowMin = 1ULL << 16;
  static constexpr std::uint64_t kWindowMax = 1ULL << 20;
  static constexpr std::uint64_t kCellsPerUse = 16;

 private:
  void age();

  std::vector<std::uint8_t> cells_;
  std::uint64_t mask_;
  std::uint64_t hand_ = 0;  // the next cell to be halved
};

}  // namespace hc
