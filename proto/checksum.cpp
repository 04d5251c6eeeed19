// SPDX-License-Identifier: Apache-2.0
// checksum: CRC32C over ISA-L, with the usual pre- and post-inversion.
#include "proto/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

namespace hc {

namespace {

// ISA-L takes an int length; payloads are far below it, but a caller may sum a whole file.
constexpr std::size_t kChunkBytes = std::size_t{1} << 30;
constexpr std::size_t kCopyBlockBytes = 16384;  // Half of a common L1 data cache.

std::uint32_t raw_crc(const std::uint8_t* data, std::size_t size, std::uint32_t state) {
  // ISA-L's prototype lacks const; the function only reads.
  auto* bytes = const_cast<std::uint8_t*>(data);
  while (size > 0) {
    const std::size_t chunk = std::min(size, kChunkBytes);
    state = crc32_iscsi(bytes, static_cast<int>(chunk), state);
    bytes += chunk;
    size -= chunk;
  }
  return state;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t seed) {
  return ~raw_crc(bytes.data(), bytes.size(), ~seed);
}

std::uint32_t copy_crc32c(std::uint8_t* target, std::span<const std::uint8_t> source,
                          std::uint32_t seed) {
  std::uint32_t state = ~seed;
  std::size_t done = 0;
  while (done < source.size()) {
    const std::size_t block = std::min(kCopyBlockBytes, source.size() - done);
    std::memcpy(target + done, source.data() + done, block);
    state = raw_crc(target + done, block, state);
    done += block;
  }
  return ~state;
}

}  // namespace hc
