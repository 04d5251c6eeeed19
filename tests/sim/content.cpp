// SPDX-License-Identifier: Apache-2.0
// content: streams of numbers that follow from a key.
#include "tests/sim/content.h"

#include <cstring>

#include "tests/sim/prng.h"

namespace hc::sim {

namespace {

Prng stream_of(const Universe& universe, const ContentKey& key) {
  const std::uint64_t place = std::uint64_t{key.version} << 48 | std::uint64_t{key.page} << 32 |
                              std::uint64_t{key.kind} << 16 | key.shard;
  return Prng(universe.seed).stream(place);
}

}  // namespace

PageHash Universe::hash(std::uint32_t page) const {
  PageHash out;
  Prng prng = Prng(seed ^ 0x5041474548415348ULL).stream(page);
  for (std::size_t at = 0; at < out.bytes.size(); at += 8) {
    const std::uint64_t word = prng.next();
    std::memcpy(out.bytes.data() + at, &word, 8);
  }
  // The number stands in the hash, so that it is found without a table.
  const std::uint32_t marked = page ^ static_cast<std::uint32_t>(seed);
  std::memcpy(out.bytes.data() + 24, &marked, sizeof marked);
  return out;
}

std::uint16_t Universe::owner(std::uint32_t page) const {
  return static_cast<std::uint16_t>((page / 2) % world);
}

std::uint32_t Universe::find(const PageHash& hash_in) const {
  std::uint32_t marked = 0;
  std::memcpy(&marked, hash_in.bytes.data() + 24, sizeof marked);
  const std::uint32_t page = marked ^ static_cast<std::uint32_t>(seed);
  return page < pages() && hash(page) == hash_in ? page : pages();
}

void fill_content(const Universe& universe, const ContentKey& key, std::span<std::uint8_t> out) {
  Prng prng = stream_of(universe, key);
  for (std::size_t at = 0; at < out.size(); at += 8) {
    const std::uint64_t word = prng.next();
    std::memcpy(out.data() + at, &word, out.size() - at < 8 ? out.size() - at : 8);
  }
}

bool has_content(const Universe& universe, const ContentKey& key,
                 std::span<const std::uint8_t> bytes) {
  Prng prng = stream_of(universe, key);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = prng.next();
    if (std::memcmp(bytes.data() + at, &word, bytes.size() - at < 8 ? bytes.size() - at : 8) != 0) {
      return false;
    }
  }
  return true;
}

std::vector<std::uint8_t> content_metadata(const Universe& universe, std::uint32_t page) {
  Prng prng = Prng(universe.seed ^ 0x4D455441ULL).stream(page);
  std::vector<std::uint8_t> out(prng.one_in(2) ? 0 : prng.between(1, 600));
  for (std::uint8_t& byte : out) {
    byte = static_cast<std::uint8_t>(prng.next());
  }
  return out;
}

}  // namespace hc::sim
