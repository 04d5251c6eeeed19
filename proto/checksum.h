// SPDX-License-Identifier: Apache-2.0
// checksum: CRC32C (Castagnoli), the one checksum of every format. Computed by ISA-L.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hc {

// Continues `seed` (0 for a fresh sum) over `bytes`; crc32c(ab) == crc32c(b, crc32c(a)).
std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t seed = 0);

// Copies and sums in one pass, block by block, so that each block is summed while it is in the
// cache. The sum is of the bytes at `target` as copied, never of a second read of `source`:
// a writer that changes `source` meanwhile can't make the sum and the copy differ.
std::uint32_t copy_crc32c(std::uint8_t* target, std::span<const std::uint8_t> source,
                          std::uint32_t seed = 0);

}  // namespace hc
