// SPDX-License-Identifier: Apache-2.0
// space_test: identity of a space: its encoding, ids, tags, parts and shards.
#include "proto/space.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/dies.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

struct Mutation {
  std::string field;
  std::function<void(SpaceDescriptor&)> apply;
};

// One change for each field. The bindings count the fields: whoever adds one must add its change.
std::vector<Mutation> every_field() {
  using D = SpaceDescriptor;
  SpaceDescriptor space = sample_space();
  [[maybe_unused]] const auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = space;
  [[maybe_unused]] const auto& [w1, w2, w3] = space.world;
  [[maybe_unused]] const auto& [k1, k2, k3, k4, k5] = space.kinds[0];
  return {
      {"tenant", [](D& s) { s.tenant += "x"; }},
      {"model", [](D& s) { s.model += "x"; }},
      {"revision", [](D& s) { s.revision += "x"; }},
      {"weight_version", [](D& s) { s.weight_version += "x"; }},
      {"dtype", [](D& s) { s.dtype += "x"; }},
      {"packing", [](D& s) { s.packing += "x"; }},
      {"layout", [](D& s) { s.layout += "x"; }},
      {"hash_scheme", [](D& s) { s.hash_scheme += "x"; }},
      {"page_tokens", [](D& s) { s.page_tokens += 1; }},
      {"bigram", [](D& s) { s.bigram = !s.bigram; }},
      {"world.tensor", [](D& s) { s.world.tensor += 1; }},
      {"world.pipeline", [](D& s) { s.world.pipeline += 1; }},
      {"world.context", [](D& s) { s.world.context += 1; }},
      {"kinds, one less", [](D& s) { s.kinds.pop_back(); }},
      {"kinds, another order", [](D& s) { std::swap(s.kinds[0], s.kinds[1]); }},
      {"kind.name", [](D& s) { s.kinds[2].name += "x"; }},
      {"kind.payload_bytes", [](D& s) { s.kinds[2].payload_bytes += 1; }},
      {"kind.placement", [](D& s) { s.kinds[2].placement = Placement::sharded; }},
      {"kind.policy",
       [](D& s) {
         s.kinds[2].policy = HitPolicy::all_pages;
         s.kinds[2].trailing_pages = 0;
       }},
      {"kind.trailing_pages", [](D& s) { s.kinds[2].trailing_pages += 1; }},
  };
}

SpaceDescriptor largest_space() {
  SpaceDescriptor space = sample_space();
  const std::string text(kNameBytesMax, 'n');
  for (std::string* field : {&space.tenant, &space.model, &space.revision, &space.weight_version,
                             &space.dtype, &space.packing, &space.layout, &space.hash_scheme}) {
    *field = text;
  }
  space.page_tokens = kPageTokensMax;
  space.world = {8, 1, 1};
  space.kinds.clear();
  for (std::uint32_t i = 0; i < kKindsMax; ++i) {
    std::string name = text;
    name.back() = static_cast<char>('a' + i);
    space.kinds.push_back(
        {name, kPayloadBytesMax, Placement::sharded, HitPolicy::trailing, kPagesPerOpMax});
  }
  return space;
}

}  // namespace

TEST_CASE("A space decodes from its encoding, the smallest and the largest too") {
  SpaceDescriptor smallest;
  smallest.model = "m";
  smallest.page_tokens = 1;
  smallest.kinds = {{"k", 1, Placement::replicated, HitPolicy::all_pages, 0}};

  for (const SpaceDescriptor& space : {smallest, sample_space(), largest_space()}) {
    REQUIRE(validate_space(space));
    const auto found = decode_space(encode_space(space));
    REQUIRE(found);
    CHECK(*found == space);
  }
  CHECK(encode_space(largest_space()).size() <= kDescriptorBytesMax);
}

TEST_CASE("The space id changes with every field") {
  const SpaceId before = make_space_id(sample_space());
  std::set<SpaceId> seen = {before};
  for (const Mutation& mutation : every_field()) {
    CAPTURE(mutation.field);
    SpaceDescriptor space = sample_space();
    mutation.apply(space);
    CHECK(validate_space(space));
    CHECK(seen.insert(make_space_id(space)).second);
  }
}

TEST_CASE("The family id changes with every field but the weight version") {
  const FamilyId before = make_family_id(sample_space());
  std::set<FamilyId> seen = {before};
  for (const Mutation& mutation : every_field()) {
    CAPTURE(mutation.field);
    SpaceDescriptor space = sample_space();
    mutation.apply(space);
    const bool is_new = seen.insert(make_family_id(space)).second;
    CHECK(is_new == (mutation.field != "weight_version"));
  }
}

TEST_CASE("Text that moves from one field to the next makes another space") {
  SpaceDescriptor left = sample_space();
  SpaceDescriptor right = sample_space();
  left.model = "ab";
  left.revision = "c";
  right.model = "a";
  right.revision = "bc";
  CHECK(make_space_id(left) != make_space_id(right));
}

TEST_CASE("A space without a weight version is its own family, under an id of the same bytes") {
  SpaceDescriptor space = sample_space();
  space.weight_version.clear();
  CHECK(make_space_id(space).bytes == make_family_id(space).bytes);
}

TEST_CASE("The space tag differs from shard to shard and from space to space") {
  const SpaceId space = make_space_id(sample_space());
  SpaceId other = space;
  other.bytes[31] ^= 1;
  std::set<std::uint32_t> tags;
  for (const int shard : {0, 1, 2, 255, 256, 512, 0xFFFF}) {
    tags.insert(make_space_tag(space, static_cast<std::uint16_t>(shard)));
    tags.insert(make_space_tag(other, static_cast<std::uint16_t>(shard)));
  }
  CHECK(tags.size() == 14);
}

TEST_CASE("A shard number counts tensor first, then context, then pipeline") {
  const WorldSizes world{4, 3, 2};
  std::uint16_t expected = 0;
  for (std::uint16_t pipeline = 0; pipeline < 3; ++pipeline) {
    for (std::uint16_t context = 0; context < 2; ++context) {
      for (std::uint16_t tensor = 0; tensor < 4; ++tensor) {
        const auto shard = shard_of(world, {tensor, pipeline, context});
        REQUIRE(shard);
        CHECK(*shard == expected++);
      }
    }
  }
  CHECK(expected == world.shards());
}

TEST_CASE("Coordinates outside the world are refused, naming field, value and range") {
  const WorldSizes world{4, 3, 2};
  struct Bad {
    ShardCoordinates at;
    std::string line;
  };
  for (const Bad& bad : {Bad{{4, 0, 0}, "coordinates.tensor = 4: must be 0..3"},
                         Bad{{0, 3, 0}, "coordinates.pipeline = 3: must be 0..2"},
                         Bad{{0, 0, 2}, "coordinates.context = 2: must be 0..1"},
                         Bad{{0xFFFF, 0, 0}, "coordinates.tensor = 65535: must be 0..3"}}) {
    const auto shard = shard_of(world, bad.at);
    REQUIRE_FALSE(shard);
    CHECK(shard.error().code == Code::bad_argument);
    CHECK(shard.error().message() == bad.line);
  }
}

TEST_CASE("Parts and part numbers agree, for every kind and shard") {
  SpaceDescriptor space = sample_space();
  std::rotate(space.kinds.begin(), space.kinds.begin() + GENERATE(0, 1, 2), space.kinds.end());

  const std::vector<PartSpec> parts = parts_of(space);
  REQUIRE(parts.size() == 8 + 1 + 8);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(i);
    CHECK(part_index(space, parts[i].kind, parts[i].shard) == i);
  }
  for (std::uint16_t kind = 0; kind < space.kinds.size(); ++kind) {
    for (std::uint16_t shard = 0; shard < space.world.shards(); ++shard) {
      const PartSpec& part = parts[part_index(space, kind, shard)];
      const bool replicated = space.kinds[kind].placement == Placement::replicated;
      CHECK(part.kind == kind);
      CHECK(part.shard == (replicated ? kShardReplicated : shard));
    }
  }
}

TEST_CASE("A part of no kind or no shard is our own error and ends us") {
  CHECK(test::dies_by_check([] { (void)part_index(sample_space(), 3, 0); }));
  CHECK(test::dies_by_check([] { (void)part_index(sample_space(), 0, 8); }));
  CHECK(test::dies_by_check([] { (void)part_index(sample_space(), 0, kShardReplicated); }));
}

TEST_CASE("Placements are named as they are parsed, and no other name is one") {
  for (const auto placement : {Placement::replicated, Placement::sharded, Placement::owned}) {
    const auto found = parse_placement(placement_name(placement));
    REQUIRE(found);
    CHECK(*found == placement);
  }
  for (const std::string name : {"", "Sharded", "shard", "unknown"}) {
    const auto found = parse_placement(name);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Code::bad_argument);
    CHECK(found.error().message() ==
          "placement = '" + name + "': must be replicated, sharded or owned");
  }
  CHECK(placement_name(static_cast<Placement>(3)) == std::string("unknown"));
}

TEST_CASE("Bytes print as lower-case hexadecimal digits") {
  CHECK(to_hex({}).empty());
  CHECK(to_hex(Bytes{0x00, 0x0F, 0xA5, 0xFF}) == "000fa5ff");
}

}  // namespace hc::proto_test
