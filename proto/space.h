// SPDX-License-Identifier: Apache-2.0
// space: everything that must be equal for two engines to share pages, and its identity.
//
// The canonical encoding is: format byte, then every field in declaration order; texts as u16
// length + bytes, numbers as little-endian fixed width. space_id is its SHA-256; family_id is the
// SHA-256 of the same encoding with an empty weight version. The tenant is set by the daemon
// from the peer, never by the client.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/result.h"

namespace hc {

enum class Placement : std::uint8_t {
  replicated = 0,  // All ranks hold equal bytes: stored once per node.
  sharded = 1,     // Each rank holds its own part of each page.
  owned = 2,       // Each page belongs to one rank, stated by the client in each operation.
};

enum class HitPolicy : std::uint8_t {
  all_pages = 0,  // A prefix of n pages needs this kind for [0, n).
  trailing = 1,   // ... only for [max(0, n - trailing_pages), n).
};

const char* placement_name(Placement placement);
Result<Placement> parse_placement(const std::string& name);

struct KindSpec {
  std::string name;  // "kv", "indexer", "draft", ...
  std::uint32_t payload_bytes = 0;
  Placement placement = Placement::sharded;
  HitPolicy policy = HitPolicy::all_pages;
  std::uint32_t trailing_pages = 0;  // With HitPolicy::trailing only.
  friend bool operator==(const KindSpec&, const KindSpec&) = default;
};

struct WorldSizes {
  std::uint16_t tensor = 1;
  std::uint16_t pipeline = 1;
  std::uint16_t context = 1;
  friend bool operator==(const WorldSizes&, const WorldSizes&) = default;
  std::uint32_t shards() const { return std::uint32_t{tensor} * pipeline * context; }
};

struct ShardCoordinates {
  std::uint16_t tensor = 0;
  std::uint16_t pipeline = 0;
  std::uint16_t context = 0;
};

struct SpaceDescriptor {
  std::string tenant;
  std::string model;
  std::string revision;
  std::string weight_version;
  std::string dtype;
  std::string packing;
  std::string layout;
  std::string hash_scheme;
  std::uint32_t page_tokens = 0;
  bool bigram = false;
  WorldSizes world;
  std::vector<KindSpec> kinds;
  friend bool operator==(const SpaceDescriptor&, const SpaceDescriptor&) = default;
};

// Names the first field out of range, its value and the allowed range.
Result<void> validate_space(const SpaceDescriptor& space);
std::vector<std::uint8_t> encode_space(const SpaceDescriptor& space);
// Parses hostile bytes; the result has been validated.
Result<SpaceDescriptor> decode_space(std::span<const std::uint8_t> bytes);

SpaceId make_space_id(const SpaceDescriptor& space);
FamilyId make_family_id(SpaceDescriptor space);
// First four bytes of SHA-256(space_id || shard as u16): the foreign-file check of a blob.
std::uint32_t make_space_tag(const SpaceId& space, std::uint16_t shard);

// (pipeline * context_size + context) * tensor_size + tensor.
Result<std::uint16_t> shard_of(const WorldSizes& world, const ShardCoordinates& at);

// Parts: the (kind, shard) pairs of a family, in the order of the kinds; a replicated kind is one
// part. A part's index names its bit in the status table.
struct PartSpec {
  std::uint16_t kind;
  std::uint16_t shard;  // kShardReplicated for a replicated kind.
};
std::vector<PartSpec> parts_of(const SpaceDescriptor& space);
// The part of `kind` on `shard` (any shard for a replicated kind).
std::uint32_t part_index(const SpaceDescriptor& space, std::uint16_t kind, std::uint16_t shard);

std::string to_hex(std::span<const std::uint8_t> bytes);

}  // namespace hc
