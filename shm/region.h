// SPDX-License-Identifier: Apache-2.0
// region: a part of a memory file mapped into this process, unmapped when the owner goes.
//
// Owner thread: whoever holds it; the bytes may be shared by rules of their own.
// Invariants: the mapped part lay inside the file when it was mapped; the address does not change
// when the object moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "proto/check.h"
#include "proto/result.h"

namespace hc {

struct RegionOptions {
  std::uint64_t offset_bytes = 0;  // any; with huge pages a multiple of their size
  std::uint64_t size_bytes = 0;    // 1 or more
  bool read_only = true;
  bool keep_from_fork = true;    // A forked child (Python engines fork) does not inherit it.
  bool keep_from_dump = true;    // Payload is not written to core dumps.
  // Transparent huge pages where the system offers them, at an address where they can be.
  bool hint_huge_pages = false;
};

class [[nodiscard]] Region {
 public:
  // Errors: bad_argument (outside the file), refused (not allowed by descriptor or seal),
  // no_space (memory), io_error.
  static Result<Region> map(int fd, const RegionOptions& options);

  Region(Region&&) noexcept;
  Region& operator=(Region&&) noexcept;
  ~Region();

  std::span<const std::uint8_t> bytes() const { return {data_, size_bytes_}; }
  std::span<std::uint8_t> writable_bytes() {
    HC_CHECK(!read_only_);
    return {data_, size_bytes_};
  }
  std::uint64_t size_bytes() const { return size_bytes_; }
  bool read_only() const { return read_only_; }

  // A shared struct at an offset. The offset is ours, never a peer's: outside is our bug.
  template <typename T>
  const T* at(std::uint64_t offset_bytes) const {
    return reinterpret_cast<const T*>(locate(offset_bytes, sizeof(T), alignof(T)));
  }
  template <typename T>
  T* writable_at(std::uint64_t offset_bytes) {
    HC_CHECK(!read_only_);
    return reinterpret_cast<T*>(locate(offset_bytes, sizeof(T), alignof(T)));
  }

 private:
  struct Mapping;  // The library's mapping; kept out of this header, which many files include.
  Region(std::unique_ptr<Mapping> mapping, const RegionOptions& options);

  std::uint8_t* locate(std::uint64_t offset_bytes, std::size_t size, std::size_t align) const {
    HC_CHECK(offset_bytes <= size_bytes_ && size <= size_bytes_ - offset_bytes);
    std::uint8_t* const place = data_ + offset_bytes;
    HC_CHECK(reinterpret_cast<std::uintptr_t>(place) % align == 0);
    return place;
  }

  std::unique_ptr<Mapping> mapping_;
  std::uint8_t* data_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  bool read_only_ = true;
};

}  // namespace hc
