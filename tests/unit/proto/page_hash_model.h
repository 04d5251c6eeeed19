// SPDX-License-Identifier: Apache-2.0
// page_hash_model: short words for page hash tests, with a plain model of the algorithm.
//
// Owner thread: the test's. Invariant: the model shares only SHA-256 with the code it judges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "proto/page_hash.h"
#include "support/catch.h"

namespace hc::page_hash_test {

using Ids = std::vector<std::uint64_t>;
using Hashes = std::vector<PageHash>;
using Prior = std::optional<PageHash>;

inline const Prior kNoPrior;
inline constexpr PageHashOptions kPlain4{.page_tokens = 4};
inline constexpr PageHashOptions kBigram4{.page_tokens = 4, .bigram = true};
inline constexpr const char* kS3 =
    "cf97adeedb59e05bfd73a2b4c2a8885708c4f4f70c84c64b27120e72ab733b72";

inline PageHash from_hex(std::string_view hex) {
  auto hash = page_hash_from_hex(hex);
  REQUIRE(hash);
  return *hash;
}

inline Hashes from_hex_all(const std::vector<std::string_view>& hexes) {
  Hashes out;
  for (const std::string_view hex : hexes) {
    out.push_back(from_hex(hex));
  }
  return out;
}

inline Ids range(std::uint64_t from, std::uint64_t to) {
  Ids ids(static_cast<std::size_t>(to - from));
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

inline std::span<const std::uint64_t> slice(const Ids& ids, std::size_t from, std::size_t to) {
  return std::span<const std::uint64_t>(ids).subspan(from, to - from);
}

inline Hashes pages(const Prior& prior, std::span<const std::uint64_t> ids,
                    const PageHashOptions& options) {
  Hashes out;
  REQUIRE(hash_pages(prior, ids, options, out));
  return out;
}

inline PageHash units(const Prior& prior, const Ids& ids, bool bigram = false) {
  auto hash = hash_units(prior, std::span<const std::uint64_t>(ids), bigram);
  REQUIRE(hash);
  return *hash;
}

// The model: the engine's loop as its documentation words it, one update per number.
inline void model_number(Sha256& sha, std::uint64_t number, int width) {
  for (int i = 0; i < width; ++i) {
    const auto byte = static_cast<std::uint8_t>(number >> (8 * i));
    sha.update({&byte, 1});
  }
}

inline PageHash model_page(const Prior& prior, std::span<const std::uint64_t> flat_ids) {
  bool wide = false;
  for (const std::uint64_t id : flat_ids) {
    wide = wide || id > 0xFFFFFFFFULL;
  }
  Sha256 sha;
  if (prior) {
    sha.update(prior->bytes);
  }
  if (wide) {
    model_number(sha, 0xFF, 1);
  }
  for (const std::uint64_t id : flat_ids) {
    model_number(sha, id, wide ? 8 : 4);
  }
  return PageHash{sha.finish()};
}

inline Ids model_flatten(std::span<const std::uint64_t> ids, bool bigram) {
  if (!bigram) {
    return Ids(ids.begin(), ids.end());
  }
  Ids flat;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    flat.push_back(ids[i]);
    flat.push_back(ids[i + 1]);
  }
  return flat;
}

inline Hashes model_pages(Prior prior, std::span<const std::uint64_t> ids,
                          const PageHashOptions& options) {
  const Ids flat = model_flatten(ids, options.bigram);
  const std::size_t page_ids = options.page_tokens * (options.bigram ? 2U : 1U);
  Hashes out;
  for (std::size_t at = 0; at < flat.size(); at += page_ids) {
    const std::size_t end = std::min(flat.size(), at + page_ids);
    if (end - at < page_ids && !options.include_short_tail) {
      break;
    }
    prior = model_page(prior, slice(flat, at, end));
    out.push_back(*prior);
  }
  return out;
}

}  // namespace hc::page_hash_test
