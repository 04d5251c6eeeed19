// SPDX-License-Identifier: Apache-2.0
// stream_copy: non-temporal stores of SSE2, which every x86-64 has; elsewhere memcpy.
#include "daemon/gpu/stream_copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace hc {

#if defined(__x86_64__)
namespace {

constexpr std::size_t kVectorBytes = sizeof(__m128i);
constexpr std::size_t kLineBytes = 64;

// Whole lines from an aligned target on; returns how many bytes.
std::size_t stream_lines(std::uint8_t* target, const std::uint8_t* source, std::size_t size_bytes) {
  const std::size_t whole = size_bytes / kLineBytes * kLineBytes;
  for (std::size_t at = 0; at < whole; at += kLineBytes) {
    __m128i vectors[kLineBytes / kVectorBytes];
    for (std::size_t i = 0; i < kLineBytes / kVectorBytes; ++i) {
      const std::uint8_t* from = source + at + i * kVectorBytes;
      vectors[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    }
    for (std::size_t i = 0; i < kLineBytes / kVectorBytes; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(target + at + i * kVectorBytes), vectors[i]);
    }
  }
  // The stores above are ordered with nothing; whoever is told of the copy must see them.
  _mm_sfence();
  return whole;
}

}  // namespace

void stream_copy(std::uint8_t* target, const std::uint8_t* source, std::size_t size_bytes) {
  if (size_bytes < kStreamBytesMin) {
    std::memcpy(target, source, size_bytes);
    return;
  }
  const std::size_t head =
      (kLineBytes - reinterpret_cast<std::uintptr_t>(target) % kLineBytes) % kLineBytes;
  std::memcpy(target, source, head);
  const std::size_t done = head + stream_lines(target + head, source + head, size_bytes - head);
  std::memcpy(target + done, source + done, size_bytes - done);
}
#else
void stream_copy(std::uint8_t* target, const std::uint8_t* source, std::size_t size_bytes) {
  std::memcpy(target, source, size_bytes);
}
#endif

}  // namespace hc
