// SPDX-License-Identifier: Apache-2.0
// index_row_test: rows come back as written, and anything else is corrupt.
#include "proto/index_row.h"

#include <algorithm>
#include <cstring>

#include "proto/checksum.h"
#include "proto/versions.h"
#include "support/catch.h"
#include "support/dies.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

IndexRow sample_row(std::size_t parts = 3) {
  IndexRow row;
  row.space = SpaceNo{258};
  row.page = sample_page();
  row.last_access = 0x1122334455667788;
  for (std::size_t i = 0; i < parts; ++i) {
    const auto number = static_cast<std::uint16_t>(i);
    row.parts.push_back({number, kShardReplicated, static_cast<std::uint16_t>(number + 1),
                         static_cast<std::uint16_t>(number + 2), 70000U + number, 9U + number});
  }
  return row;
}

Bytes key_of(const IndexRow& row) {
  const auto key = encode_index_key(row.space, row.page);
  return Bytes(key.begin(), key.end());
}

bool is_corrupt(const Bytes& key, const Bytes& value) {
  const auto found = decode_index_row(key, value);
  return !found && found.error().code == Code::corrupt;
}

// Makes the checksum right again after a change, as another writer would.
void reseal(const Bytes& key, Bytes& value) {
  const std::uint32_t crc = crc32c(std::span(value).subspan(4), crc32c(key));
  std::memcpy(value.data(), &crc, sizeof crc);
}

}  // namespace

TEST_CASE("An index row with any number of parts comes back as written") {
  for (std::size_t parts = 0; parts <= kPartsMax; ++parts) {
    CAPTURE(parts);
    const IndexRow row = sample_row(parts);
    const Bytes value = encode_index_value(row);
    CHECK(value.size() == sizeof(IndexRowHeader) + parts * sizeof(IndexRowPart));

    const auto found = decode_index_row(key_of(row), value);
    REQUIRE(found);
    CHECK(*found == row);
  }
}

TEST_CASE("Index keys sort by space first, so that a space is one range") {
  PageHash low;
  PageHash high;
  high.bytes.fill(0xFF);
  CHECK(encode_index_key(SpaceNo{1}, high) < encode_index_key(SpaceNo{2}, low));
  CHECK(encode_index_key(SpaceNo{255}, high) < encode_index_key(SpaceNo{256}, low));
  CHECK(encode_index_key(SpaceNo{0x00FFFFFF}, high) < encode_index_key(SpaceNo{0x01000000}, low));
  CHECK(encode_index_key(SpaceNo{7}, low) < encode_index_key(SpaceNo{7}, high));
}

TEST_CASE("An index row with a rotten byte anywhere is corrupt") {
  const IndexRow row = sample_row();
  const Bytes key = key_of(row);
  const Bytes good = encode_index_value(row);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    CAPTURE(bit);
    Bytes value = good;
    value[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    CHECK(is_corrupt(key, value));
  }
}

TEST_CASE("An index row under the key of another page or another space is corrupt") {
  const IndexRow row = sample_row();
  const Bytes value = encode_index_value(row);
  for (std::size_t bit = 0; bit < kIndexKeyBytes * 8; ++bit) {
    CAPTURE(bit);
    Bytes key = key_of(row);
    key[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    CHECK(is_corrupt(key, value));
  }
  IndexRow other = row;
  other.page = sample_page(1);
  CHECK(is_corrupt(key_of(other), value));
}

TEST_CASE("An index row cut short at any length, or with a key of a wrong length, is corrupt") {
  const IndexRow row = sample_row();
  const Bytes key = key_of(row);
  const Bytes good = encode_index_value(row);
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    Bytes value(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(is_corrupt(key, value));
    if (size >= 4) {
      reseal(key, value);
      CHECK(is_corrupt(key, value));
    }
  }
  CHECK(is_corrupt({}, good));
  CHECK(is_corrupt(Bytes(key.begin(), key.end() - 1), good));
  Bytes longer = key;
  longer.push_back(0);
  CHECK(is_corrupt(longer, good));
}

TEST_CASE("An index row of an impossible shape is corrupt, even under a right checksum") {
  const IndexRow row = sample_row();
  const Bytes key = key_of(row);
  Bytes value = encode_index_value(row);

  SECTION("another version") {
    value[offsetof(IndexRowHeader, version)] = kDiskVersion + 1;
  }
  SECTION("one part more than it has") {
    value[offsetof(IndexRowHeader, part_count)] = 4;
  }
  SECTION("one part less than it has") {
    value[offsetof(IndexRowHeader, part_count)] = 2;
  }
  SECTION("a tail after its parts") {
    value.push_back(0);
  }
  SECTION("spare bytes in use") {
    value[offsetof(IndexRowHeader, reserved) + 7] = 1;
  }
  SECTION("more parts than a family can have") {
    value.resize(sizeof(IndexRowHeader) + (kPartsMax + 1) * sizeof(IndexRowPart));
    value[offsetof(IndexRowHeader, part_count)] = kPartsMax + 1;
  }
  reseal(key, value);
  CHECK(is_corrupt(key, value));
}

TEST_CASE("A row of more parts than the limit is our own error and ends us") {
  CHECK(test::dies_by_check([] { (void)encode_index_value(sample_row(kPartsMax + 1)); }));
}

}  // namespace hc::proto_test
