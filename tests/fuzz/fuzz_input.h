// SPDX-License-Identifier: Apache-2.0
// fuzz_input: how fuzz targets take their input apart, and put checksums right.
//
// A fuzzer can't guess a checksum. Most targets therefore read a first byte of flags, by which the
// input asks to have its checksums made right before it is parsed, so that the checks behind them
// are reached too. A law that does not hold ends the process by HC_CHECK.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "proto/check.h"
#include "proto/checksum.h"

namespace hc::fuzz {

using Bytes = std::vector<std::uint8_t>;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size_bytes) : rest_(data, size_bytes) {}

  std::uint8_t byte() {
    const Bytes one = take(1);
    return one.empty() ? std::uint8_t{0} : one.front();
  }
  // At most `size_bytes`, as an exact copy, so that the sanitizer sees a read past its end.
  Bytes take(std::size_t size_bytes) {
    const auto part = rest_.first(std::min(size_bytes, rest_.size()));
    rest_ = rest_.subspan(part.size());
    return Bytes(part.begin(), part.end());
  }
  Bytes take_rest() { return take(rest_.size()); }
  std::size_t left_bytes() const { return rest_.size(); }

 private:
  std::span<const std::uint8_t> rest_;
};

// Puts a CRC32C of `size_bytes` bytes, of which it is the first four, in front of the others.
inline void reseal(std::uint8_t* at, std::size_t size_bytes, std::uint32_t seed = 0) {
  const std::uint32_t crc = crc32c({at + sizeof seed, size_bytes - sizeof seed}, seed);
  std::memcpy(at, &crc, sizeof crc);
}

// Copies `part` to `offset` of `target`, as far as there is room.
inline void place(Bytes& target, std::size_t offset, const Bytes& part) {
  HC_CHECK(offset <= target.size());
  const std::size_t size_bytes = std::min(part.size(), target.size() - offset);
  std::copy_n(part.begin(), size_bytes, target.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace hc::fuzz
