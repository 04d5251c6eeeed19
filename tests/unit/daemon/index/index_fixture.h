// SPDX-License-Identifier: Apache-2.0
// index_fixture: rows, spaces and an LMDB index in a folder, for the tests of the index.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/index/lmdb_index.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace hc::test {

inline IndexIdentity identity_of(std::uint8_t number, std::uint64_t epoch = 1) {
  IndexIdentity identity;
  identity.store_uuid.fill(number);
  identity.store_epoch = epoch;
  return identity;
}

// Spread over the key space like real hashes, and reproducible.
inline PageHash hash_of(std::uint64_t number) {
  PageHash hash;
  std::uint64_t state = number * 0x9E3779B97F4A7C15ULL + 1;
  for (std::uint8_t& byte : hash.bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::uint8_t>(state >> 56);
  }
  return hash;
}

inline IndexRow row_of(std::uint32_t space, std::uint64_t number, std::uint32_t slot) {
  return {SpaceNo{space}, hash_of(number), number + 1000,
          {{0, 0, 0, 0, slot, slot + 1}, {1, kShardReplicated, 0, 0, slot + 2, slot + 3}}};
}

inline IndexSpace space_of(std::uint32_t number) {
  IndexSpace space;
  space.number = SpaceNo{number};
  space.descriptor.tenant = "default";
  space.descriptor.model = "model-" + std::to_string(number);
  space.descriptor.page_tokens = 64;
  space.descriptor.kinds.push_back({"kv", 65536, Placement::sharded, HitPolicy::all_pages, 0});
  space.shards_on_node = static_cast<std::uint16_t>(number + 1);
  return space;
}

inline std::unique_ptr<LmdbIndex> make_index(const std::string& dir, std::uint64_t pages = 1000) {
  auto index = LmdbIndex::create({dir, pages, 2, 10'000});
  REQUIRE(index);
  return std::move(*index);
}

inline Result<void> commit(Index& index, IndexBatch batch) {
  index.commit(std::move(batch));
  index.wait();
  auto result = index.poll();
  REQUIRE(result.has_value());
  return *result;
}

struct Seen {
  std::vector<IndexSpace> spaces;
  std::vector<IndexRow> rows;
  std::vector<Error> damaged;
  std::vector<IndexErase> damaged_keys;
};

inline Seen visit_all(Index& index) {
  Seen seen;
  REQUIRE(index.visit({[&](const IndexSpace& space) {
                         CHECK(seen.rows.empty());  // spaces come first
                         seen.spaces.push_back(space);
                       },
                       [&](const IndexRow& row) { seen.rows.push_back(row); },
                       [&](const Error& error) { seen.damaged.push_back(error); },
                       [&](const IndexErase& key) { seen.damaged_keys.push_back(key); }}));
  return seen;
}

}  // namespace hc::test
