// SPDX-License-Identifier: Apache-2.0
// populate: gives a mapping all its pages at once, by several threads, instead of one fault each
// when they are first touched.
//
// Owner thread: the caller's, and helpers that have ended when a call returns.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "proto/result.h"

namespace hc {

struct PopulateOptions {
  std::uint32_t threads = 0;                // 0: one per processor, at most 16
  std::function<void()> on_progress = {};   // called by the caller's thread, between pieces
};

// Allocates and maps every page of a writable shared mapping, with its huge-page hint honoured.
// The content stays as it is. Errors: no_space (memory ran short), unsupported (kernels before
// 5.14: allocate another way), io_error.
Result<void> populate_for_writing(std::span<std::uint8_t> memory, const PopulateOptions& options);

}  // namespace hc
