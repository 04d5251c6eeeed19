// SPDX-License-Identifier: Apache-2.0
// wire_struct: what a struct must be to be shared as bytes, and the fingerprint of all of them.
//
// has_unique_object_representations refuses padding anywhere in the struct, which a size check
// alone does not. All multi-byte fields are little-endian; only little-endian hosts compile.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace hc {

static_assert(std::endian::native == std::endian::little, "hicache formats are little-endian");

template <typename T>
concept WireStruct = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> &&
                     std::has_unique_object_representations_v<T>;

// FNV-1a over sizes and offsets: both sides of a shared mapping compare it before use.
class LayoutFingerprint {
 public:
  constexpr LayoutFingerprint add(std::uint64_t number) const {
    LayoutFingerprint next = *this;
    for (int i = 0; i < 8; ++i) {
      next.value_ ^= (number >> (8 * i)) & 0xFFU;
      next.value_ *= 0x100000001B3ULL;
    }
    return next;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325ULL;
};

}  // namespace hc
