// SPDX-License-Identifier: Apache-2.0
// stream: a counter-based mix of 64-bit words.
#include "client/ctl/stream.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace hc {

namespace {

constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;
constexpr std::uint64_t kFactor = 0xD6E8FEB86659FD93ULL;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::size_t kPieceBytes = 4096;

std::uint64_t mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
  return word ^ (word >> 31);
}

std::uint64_t base_of(const StreamKey& key) {
  const std::uint64_t place = (std::uint64_t{key.shard} << 16) | key.kind;
  return mix(mix(key.hash + kStep) + place);
}

// Word `index` is mixed from base + index * kStep: neighbours differ in every byte, and a shift by
// any number of bytes never matches.
std::uint64_t word_at(std::uint64_t counter) {
  counter ^= counter >> 32;
  counter *= kFactor;
  return counter ^ (counter >> 29);
}

void fill_words(std::uint64_t counter, std::uint8_t* out, std::size_t word_count) {
  for (std::size_t i = 0; i < word_count; ++i) {
    const std::uint64_t word = word_at(counter + i * kStep);
    std::memcpy(out + i * kWordBytes, &word, kWordBytes);
  }
}

// The common case of a comparison, without a buffer in between.
bool words_equal(std::uint64_t counter, const std::uint8_t* in, std::size_t word_count) {
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < word_count; ++i) {
    std::uint64_t found = 0;
    std::memcpy(&found, in + i * kWordBytes, kWordBytes);
    difference |= found ^ word_at(counter + i * kStep);
  }
  return difference == 0;
}

bool piece_equal(const StreamKey& key, std::uint64_t offset_bytes,
                 std::span<const std::uint8_t> in) {
  return offset_bytes % kWordBytes == 0 && in.size() % kWordBytes == 0 &&
         words_equal(base_of(key) + offset_bytes / kWordBytes * kStep, in.data(),
                     in.size() / kWordBytes);
}

}  // namespace

void fill_stream(const StreamKey& key, std::uint64_t offset_bytes, std::span<std::uint8_t> out) {
  std::uint64_t counter = base_of(key) + offset_bytes / kWordBytes * kStep;
  std::size_t skip = static_cast<std::size_t>(offset_bytes % kWordBytes);
  std::size_t done = 0;
  if (skip != 0 && !out.empty()) {
    const std::uint64_t word = word_at(counter);
    done = std::min(kWordBytes - skip, out.size());
    std::memcpy(out.data(), reinterpret_cast<const char*>(&word) + skip, done);
    counter += kStep;
  }
  const std::size_t words = (out.size() - done) / kWordBytes;
  fill_words(counter, out.data() + done, words);
  counter += words * kStep;
  done += words * kWordBytes;
  if (done < out.size()) {
    const std::uint64_t word = word_at(counter);
    std::memcpy(out.data() + done, &word, out.size() - done);
  }
}

StreamMismatch compare_stream(const StreamKey& key, std::uint64_t offset_bytes,
                              std::span<const std::uint8_t> in) {
  StreamMismatch found;
  std::array<std::uint8_t, kPieceBytes> expected;
  for (std::size_t at = 0; at < in.size(); at += kPieceBytes) {
    const std::size_t length = std::min(kPieceBytes, in.size() - at);
    if (piece_equal(key, offset_bytes + at, in.subspan(at, length))) {
      continue;
    }
    fill_stream(key, offset_bytes + at, std::span(expected).first(length));
    if (std::memcmp(expected.data(), in.data() + at, length) == 0) {
      continue;
    }
    for (std::size_t i = 0; i < length; ++i) {
      if (expected[i] == in[at + i]) {
        continue;
      }
      if (found.wrong_bytes++ == 0) {
        found.first_offset = offset_bytes + at + i;
      }
    }
  }
  return found;
}

}  // namespace hc
