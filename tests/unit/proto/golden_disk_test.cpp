// SPDX-License-Identifier: Apache-2.0
// golden_disk_test: today's code writes and reads exactly the bytes that another program wrote, for
// every format on disk and for the identity of a space.
#include <cstring>
#include <memory>

#include "proto/blob_header.h"
#include "proto/checksum.h"
#include "proto/index_row.h"
#include "proto/slab_header.h"
#include "proto/superblock.h"
#include "support/catch.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

constexpr std::uint32_t kPayloadBytes = 515328;
const std::string kMetadata = "parent and token ids of the page";

std::uint32_t payload_crc() {
  Bytes payload(kPayloadBytes);
  for (std::size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<std::uint8_t>(i * 7 % 251);
  }
  return crc32c(payload);
}

BlobHeader blob_header() {
  BlobHeader header{};
  header.kind = 1;
  header.payload_bytes = kPayloadBytes;
  header.page_hash = sample_page();
  header.payload_crc = payload_crc();
  header.space_tag = make_space_tag(make_space_id(sample_space()), kShardReplicated);
  header.slot = 70000;
  header.generation = 0x01020304;
  return header;
}

SlabHeader slab_header() {
  SlabHeader header{};
  header.kind = 1;
  header.shard = kShardReplicated;
  header.volume = 2;
  header.store_uuid = sample_uuid();
  header.family = make_family_id(sample_space());
  header.slot_bytes = blob_bytes(kPayloadBytes);
  header.first_slot_offset = kFirstSlotOffset;
  header.slot_count = 100000;
  header.slots_per_step = 256;
  header.payload_bytes = kPayloadBytes;
  seal_slab_header(header);
  return header;
}

std::unique_ptr<Superblock> superblock(std::uint64_t sequence, std::uint64_t epoch,
                                       std::uint32_t spaces) {
  auto out = std::make_unique<Superblock>();
  out->sequence = sequence;
  out->epoch = epoch;
  out->store_uuid = sample_uuid();
  out->generation_high = 0x01030000;
  out->space_count = spaces;
  out->spaces[0] = {make_space_id(sample_space()), 5};
  if (spaces > 1) {
    out->spaces[1] = {SpaceId{sha256(bytes_of("another space"))}, 0};
  }
  seal_superblock(*out);
  return out;
}

IndexRow index_row() {
  IndexRow row;
  row.space = SpaceNo{258};
  row.page = sample_page();
  row.last_access = 0x1122334455667788;
  row.parts = {{0, 3, 0, 2, 41, 0x01020303},
               {1, kShardReplicated, 0, 2, 70000, 0x01020304},
               {2, 5, 5, 0, 7, 0x01020305}};
  return row;
}

void append(Bytes& out, std::span<const std::uint8_t> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

TEST_CASE("Golden bytes: a blob header block with metadata") {
  const Bytes expected = golden("blob_header");
  Bytes block(kBlockBytes);
  encode_header_block(block, blob_header(), sample_seed(), bytes_of(kMetadata));
  CHECK(block == expected);

  BlobHeader found;
  REQUIRE(parse_header_block(expected, sample_seed(), found) == BlobVerdict::good);
  const BlobHeader wanted = blob_header();
  CHECK(judge_header(found, {1, kPayloadBytes, sample_page(), wanted.space_tag, SlotId{70000},
                             Generation{0x01020304}}) == BlobVerdict::good);
  CHECK(found.payload_crc == wanted.payload_crc);
  std::span<const std::uint8_t> metadata;
  REQUIRE(read_metadata(expected, metadata) == BlobVerdict::good);
  CHECK(std::string(metadata.begin(), metadata.end()) == kMetadata);
}

TEST_CASE("Golden bytes: the two copies of a slab header") {
  const Bytes expected = golden("slab_header");
  const SlabHeader header = slab_header();
  Bytes blocks(std::size_t{kSlabHeaderCopies} * kBlockBytes);
  std::memcpy(blocks.data(), &header, sizeof header);
  std::memcpy(blocks.data() + kBlockBytes, &header, sizeof header);
  CHECK(blocks == expected);

  const auto found = parse_slab_header(expected);
  REQUIRE(found);
  CHECK(struct_bytes(*found) == struct_bytes(header));
}

TEST_CASE("Golden bytes: the two copies of a superblock") {
  const Bytes expected = golden("superblock");
  const auto older = superblock(6, 2, 1);
  const auto newer = superblock(7, 3, 2);
  Bytes file(kSuperblockCopies * kSuperblockCopyBytes);
  std::memcpy(file.data(), older.get(), sizeof *older);
  std::memcpy(file.data() + kSuperblockCopyBytes, newer.get(), sizeof *newer);
  CHECK(file == expected);

  const auto found = parse_superblock(expected);
  REQUIRE(found);
  CHECK(struct_bytes(*found) == struct_bytes(*newer));
}

TEST_CASE("Golden bytes: key and value of an index row") {
  const Bytes key = golden("index_key");
  const Bytes value = golden("index_value");
  const IndexRow row = index_row();
  const auto key_now = encode_index_key(row.space, row.page);
  CHECK(Bytes(key_now.begin(), key_now.end()) == key);
  CHECK(encode_index_value(row) == value);

  const auto found = decode_index_row(key, value);
  REQUIRE(found);
  CHECK(*found == row);
}

TEST_CASE("Golden bytes: a space descriptor") {
  const Bytes expected = golden("space_descriptor");
  CHECK(encode_space(sample_space()) == expected);

  const auto found = decode_space(expected);
  REQUIRE(found);
  CHECK(*found == sample_space());
}

TEST_CASE("Golden bytes: space id, family id and the tags of two shards") {
  const SpaceId space = make_space_id(sample_space());
  const FamilyId family = make_family_id(sample_space());
  Bytes identity;
  append(identity, space.bytes);
  append(identity, family.bytes);
  for (const std::uint16_t shard : {std::uint16_t{3}, kShardReplicated}) {
    const std::uint32_t tag = make_space_tag(space, shard);
    append(identity, {reinterpret_cast<const std::uint8_t*>(&tag), sizeof tag});
  }
  CHECK(identity == golden("space_identity"));
}

}  // namespace hc::proto_test
