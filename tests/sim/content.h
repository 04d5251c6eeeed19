// SPDX-License-Identifier: Apache-2.0
// content: the bytes that every payload of every page must have, and the pages there are.
//
// Content addressed: the bytes follow from weight version, page, kind and shard, so nobody has to
// remember what was stored. A page of another version has other bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/space.h"

namespace hc::sim {

struct ContentKey {
  std::uint32_t version = 0;
  std::uint32_t page = 0;     // number in the universe
  std::uint16_t kind = 0;
  std::uint16_t shard = 0;    // kShardReplicated for a replicated kind
};

// Pages form conversations: page i of a conversation follows page i - 1.
struct Universe {
  std::uint64_t seed = 0;
  std::uint32_t conversations = 0;
  std::uint32_t pages_each = 0;
  std::uint32_t world = 1;
  std::uint32_t pages() const { return conversations * pages_each; }
  PageHash hash(std::uint32_t page) const;
  std::uint16_t owner(std::uint32_t page) const;
  // The page of a hash; pages() when it is none of ours.
  std::uint32_t find(const PageHash& hash) const;
};

void fill_content(const Universe& universe, const ContentKey& key, std::span<std::uint8_t> out);
bool has_content(const Universe& universe, const ContentKey& key,
                 std::span<const std::uint8_t> bytes);
// Page metadata of a page: always the same, and not of every page.
std::vector<std::uint8_t> content_metadata(const Universe& universe, std::uint32_t page);

}  // namespace hc::sim
