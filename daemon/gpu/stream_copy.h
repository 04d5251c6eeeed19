// SPDX-License-Identifier: Apache-2.0
// stream_copy: memcpy that leaves the target out of the caches.
//
// A payload that an engine asked for is larger than a cache and is read next by somebody else (a
// GPU, another core). Writing it past the caches saves the read of every line that is about to be
// overwritten, a third of the traffic. Owner thread: any. The ranges must not overlap.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hc {

// Smaller copies go through the caches.
inline constexpr std::size_t kStreamBytesMin = 128U << 10;

void stream_copy(std::uint8_t* target, const std::uint8_t* source, std::size_t size_bytes);

}  // namespace hc
