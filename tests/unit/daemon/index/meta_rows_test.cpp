// SPDX-License-Identifier: Apache-2.0
// meta_rows_test: the bytes of a space row and of the identity, and each check on them, alone.
// Covers daemon/index/meta_rows.cpp.
#include "daemon/index/meta_rows.h"

#include <cstring>

#include "index_fixture.h"
#include "proto/checksum.h"
#include "unit/proto/sample.h"

namespace hc::test {

namespace {

// Puts the right checksum over changed bytes, so that the check behind it is reached.
void reseal(std::vector<std::uint8_t>& value, std::span<const std::uint8_t> key) {
  const std::uint32_t crc = crc32c(std::span(value).subspan(4), crc32c(key));
  std::memcpy(value.data(), &crc, sizeof crc);
}

}  // namespace

TEST_CASE("a space row is read back as it was written") {
  const IndexSpace space = space_of(0x01020304);
  const auto key = encode_space_key(space.number);

  const auto decoded = decode_space_row(key, encode_space_row(space));

  REQUIRE(decoded);
  CHECK(key == std::array<std::uint8_t, 4>{1, 2, 3, 4});
  CHECK(decoded->number == space.number);
  CHECK(decoded->descriptor == space.descriptor);
  CHECK(decoded->shards_on_node == space.shards_on_node);
}

TEST_CASE("Golden bytes: a space row, key and value") {
  const IndexSpace space{SpaceNo{258}, proto_test::sample_space(), 6};
  const auto key = encode_space_key(space.number);
  const auto value = encode_space_row(space);
  proto_test::Bytes row(key.begin(), key.end());
  row.insert(row.end(), value.begin(), value.end());

  CHECK(row == proto_test::golden("space_row"));
}

TEST_CASE("Golden bytes: the identity of an index") {
  const auto row = encode_identity({proto_test::sample_uuid(), 3});

  CHECK(proto_test::Bytes(row.begin(), row.end()) == proto_test::golden("identity_row"));
}

TEST_CASE("Golden bytes: the state of an index") {
  const auto row = encode_state({0x0102030405, true});

  CHECK(proto_test::Bytes(row.begin(), row.end()) == proto_test::golden("state_row"));
  CHECK(*decode_state(row) == IndexState{0x0102030405, true});
}

TEST_CASE("each damage to a state row is found, and so is a row of an unknown name") {
  const auto good = encode_state({7, false});
  for (std::size_t at = 0; at < good.size(); ++at) {
    auto bad = good;
    bad[at] ^= 1;
    CHECK(decode_state(bad).error().code == Code::corrupt);
  }
  CHECK_FALSE(decode_state(std::span(good).first(15)));
  const std::vector<std::uint8_t> name{'x'};
  CHECK_FALSE(judge_meta_row(name, good));
}

TEST_CASE("a space row under another key is refused") {
  const auto value = encode_space_row(space_of(1));

  CHECK(decode_space_row(encode_space_key(SpaceNo{2}), value).error().code == Code::corrupt);
}

TEST_CASE("each damage to a space row is found") {
  const auto key = encode_space_key(SpaceNo{1});
  auto value = encode_space_row(space_of(1));

  SECTION("a flipped bit") {
    value[value.size() / 2] ^= 4;
    CHECK(decode_space_row(key, value).error().text == "space row does not match its checksum");
  }
  SECTION("an unknown version") {
    value[4] ^= 0x80;
    reseal(value, key);
    CHECK(decode_space_row(key, value).error().text == "space row has an unknown version");
  }
  SECTION("a descriptor that does not parse") {
    value.pop_back();
    reseal(value, key);
    CHECK(decode_space_row(key, value).error().code == Code::corrupt);
  }
  SECTION("too few bytes") {
    value.resize(7);
    CHECK(decode_space_row(key, value).error().text == "space row has a wrong size");
  }
  SECTION("a key of another size") {
    CHECK(decode_space_row(std::span(key).subspan(1), value).error().text ==
          "space row has a wrong size");
  }
}

TEST_CASE("an identity is read back, and each damage to it is found") {
  const auto good = encode_identity(identity_of(9, 77));
  REQUIRE(decode_identity(good));
  CHECK(*decode_identity(good) == identity_of(9, 77));
  std::vector<std::uint8_t> value(good.begin(), good.end());

  SECTION("a flipped bit") {
    value[20] ^= 1;
    CHECK(decode_identity(value).error().text == "index identity does not match its checksum");
  }
  SECTION("an unknown version") {
    value[4] ^= 0x80;
    reseal(value, {});
    CHECK(decode_identity(value).error().text == "index identity has an unknown version");
  }
  SECTION("spare bytes in use") {
    value[6] = 1;
    reseal(value, {});
    CHECK(decode_identity(value).error().text == "index identity has an unknown version");
  }
  SECTION("a wrong size") {
    value.pop_back();
    CHECK(decode_identity(value).error().text == "index identity has a wrong size");
  }
}

}  // namespace hc::test
