// SPDX-License-Identifier: Apache-2.0
// use_sketch: four cells a key, only the smallest are raised; a hand goes round and halves.
//
// A window of uses fills at most a quarter of the cells, so that a key which was never seen is
// taken for a known one about once in 256 times (all of its four cells taken by others).
#include "daemon/engine/use_sketch.h"

#include <algorithm>
#include <array>
#include <bit>

namespace hc {

namespace {

constexpr std::size_t kProbes = 4;

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 31)) * 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 29)) * 0xBF58476D1CE4E5B9ULL;
  return value ^ (value >> 32);
}

}  // namespace

UseSketch::UseSketch(std::uint64_t window)
    : cells_(std::bit_ceil(std::clamp(window, kWindowMin, kWindowMax)) * kCellsPerUse),
      mask_(cells_.size() - 1) {}

// Every cell is halved once in a window of uses: what was seen once in it is forgotten with it.
void UseSketch::age() {
  for (std::uint64_t i = 0; i < kCellsPerUse; ++i) {
    cells_[hand_ + i] = static_cast<std::uint8_t>(cells_[hand_ + i] >> 1);
  }
  hand_ = (hand_ + kCellsPerUse) & mask_;
}

std::uint32_t UseSketch::add(std::uint64_t key) {
  age();
  const std::uint64_t first = mix(key);
  const std::uint64_t step = mix(first) | 1;
  std::array<std::uint64_t, kProbes> at{};
  std::uint8_t least = UINT8_MAX;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    at[probe] = (first + probe * step) & mask_;
    least = std::min(least, cells_[at[probe]]);
  }
  if (least == UINT8_MAX) {
    return least;
  }
  for (const std::uint64_t cell : at) {
    if (cells_[cell] == least) {
      cells_[cell] = static_cast<std::uint8_t>(least + 1);
    }
  }
  return least + 1U;
}

}  // namespace hc
