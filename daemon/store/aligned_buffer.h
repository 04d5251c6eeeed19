// SPDX-License-Identifier: Apache-2.0
// aligned_buffer: memory for O_DIRECT: aligned to kBlockBytes, zeroed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "proto/check.h"
#include "proto/limits.h"

namespace hc {

class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t size_bytes) : size_bytes_(size_bytes) {
    HC_CHECK(size_bytes % kBlockBytes == 0);
    memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kBlockBytes, size_bytes)));
    HC_CHECK(memory_ != nullptr);
    std::memset(memory_.get(), 0, size_bytes);
  }

  std::span<std::uint8_t> bytes() { return {memory_.get(), size_bytes_}; }
  std::uint8_t* data() { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::size_t size_bytes_;
};

}  // namespace hc
