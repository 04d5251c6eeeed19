// SPDX-License-Identifier: Apache-2.0
// blob_header_test: each check of a header block alone, because together they hide each other.
#include "proto/blob_header.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>

#include "proto/checksum.h"
#include "proto/versions.h"
#include "support/catch.h"
#include "support/dies.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

constexpr std::size_t kHeaderBits = sizeof(BlobHeader) * 8;
constexpr std::size_t kMetadataAt = sizeof(BlobHeader);
constexpr std::size_t kMetadataBytesAt = kMetadataAt + sizeof(BlobMetadata);

BlobHeader sample_header() {
  BlobHeader header{};
  header.kind = 1;
  header.payload_bytes = 515328;
  header.page_hash = sample_page();
  header.payload_crc = 0xA1B2C3D4U;
  header.space_tag = 0x55667788U;
  header.slot = 70000;
  header.generation = 9;
  return header;
}

BlobExpectation sample_expectation() {
  return {1, 515328, sample_page(), 0x55667788U, SlotId{70000}, Generation{9}};
}

Bytes sample_block(std::span<const std::uint8_t> metadata = {}) {
  Bytes block(kBlockBytes, 0xEE);
  encode_header_block(block, sample_header(), sample_seed(), metadata);
  return block;
}

BlobVerdict parse(std::span<const std::uint8_t> block, const BlobSeed& seed = sample_seed()) {
  BlobHeader header;
  return parse_header_block(block, seed, header);
}

void flip(Bytes& bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ (1U << (bit % 8)));
}

// Writes a header as it stands, under a right checksum, as another writer would.
Bytes block_of(BlobHeader header) {
  header.header_crc = blob_header_crc(header, sample_seed());
  Bytes block(kBlockBytes);
  std::memcpy(block.data(), &header, sizeof header);
  return block;
}

BlobVerdict metadata_verdict(std::span<const std::uint8_t> block) {
  std::span<const std::uint8_t> metadata;
  const BlobVerdict verdict = read_metadata(block, metadata);
  CHECK((verdict == BlobVerdict::good || metadata.empty()));
  return verdict;
}

}  // namespace

TEST_CASE("A header block gives back the header it was made from, with magic, version and sum") {
  const Bytes block = sample_block();

  BlobHeader header;
  REQUIRE(parse_header_block(block, sample_seed(), header) == BlobVerdict::good);

  BlobHeader expected = sample_header();
  expected.magic = kBlobMagic;
  expected.version = kDiskVersion;
  expected.header_crc = header.header_crc;
  CHECK(header == expected);
  CHECK(header.header_crc == blob_header_crc(header, sample_seed()));
  CHECK(judge_header(header, sample_expectation()) == BlobVerdict::good);
}

TEST_CASE("A header block is zero after the header and the metadata") {
  const Bytes metadata(100, 0xAB);
  const Bytes plain = sample_block();
  const Bytes with_metadata = sample_block(metadata);

  CHECK(std::count(plain.begin() + kMetadataAt, plain.end(), 0) ==
        static_cast<std::ptrdiff_t>(kBlockBytes - kMetadataAt));
  CHECK(std::count(with_metadata.begin() + kMetadataBytesAt + 100, with_metadata.end(), 0) ==
        static_cast<std::ptrdiff_t>(kBlockBytes - kMetadataBytesAt - 100));
}

TEST_CASE("A header that differs from the expectation in one field gives that field's verdict") {
  const BlobHeader header = sample_header();
  REQUIRE(judge_header(header, sample_expectation()) == BlobVerdict::good);

  SECTION("kind") {
    auto wanted = sample_expectation();
    wanted.kind = 2;
    CHECK(judge_header(header, wanted) == BlobVerdict::wrong_kind);
  }
  SECTION("payload size") {
    auto wanted = sample_expectation();
    wanted.payload_bytes += 1;
    CHECK(judge_header(header, wanted) == BlobVerdict::wrong_size);
  }
  SECTION("page, in each of its bytes") {
    for (std::size_t i = 0; i < 32; ++i) {
      CAPTURE(i);
      auto wanted = sample_expectation();
      wanted.page_hash.bytes[i] ^= 1;
      CHECK(judge_header(header, wanted) == BlobVerdict::wrong_page);
    }
  }
  SECTION("space") {
    auto wanted = sample_expectation();
    wanted.space_tag ^= 1;
    CHECK(judge_header(header, wanted) == BlobVerdict::wrong_space);
  }
  SECTION("slot") {
    auto wanted = sample_expectation();
    wanted.slot.value += 1;
    CHECK(judge_header(header, wanted) == BlobVerdict::wrong_slot);
  }
  SECTION("generation, an older and a newer one") {
    auto wanted = sample_expectation();
    wanted.generation.value += 1;
    CHECK(judge_header(header, wanted) == BlobVerdict::wrong_generation);
    wanted.generation.value -= 2;
    CHECK(judge_header(header, wanted) == BlobVerdict::wrong_generation);
  }
}

TEST_CASE("A header with another magic counts as unwritten, even under a right checksum") {
  BlobHeader header = sample_header();
  header.magic = kBlobMagic + 1;
  header.version = kDiskVersion;

  CHECK(parse(block_of(header)) == BlobVerdict::unwritten);
  CHECK(parse(Bytes(kBlockBytes, 0x00)) == BlobVerdict::unwritten);
  CHECK(parse(Bytes(kBlockBytes, 0xFF)) == BlobVerdict::unwritten);
}

TEST_CASE("A header of another version under a right checksum gives bad_version") {
  for (const auto version : std::initializer_list<std::uint16_t>{0, kDiskVersion + 1, 0xFFFF}) {
    CAPTURE(version);
    BlobHeader header = sample_header();
    header.magic = kBlobMagic;
    header.version = version;
    CHECK(parse(block_of(header)) == BlobVerdict::bad_version);
  }
}

TEST_CASE("Every flipped bit of the 64 header bytes is found") {
  const Bytes good = sample_block();
  for (std::size_t bit = 0; bit < kHeaderBits; ++bit) {
    CAPTURE(bit);
    Bytes block = good;
    flip(block, bit);
    const std::size_t byte = bit / 8;
    const bool in_magic =
        byte >= offsetof(BlobHeader, magic) && byte < offsetof(BlobHeader, version);
    CHECK(parse(block) == (in_magic ? BlobVerdict::unwritten : BlobVerdict::bad_header_crc));
  }
}

TEST_CASE("A header that did not parse is not given out") {
  Bytes block = sample_block();
  flip(block, 0);

  BlobHeader header = sample_header();
  header.slot = 12345;
  const BlobHeader before = header;
  CHECK(parse_header_block(block, sample_seed(), header) == BlobVerdict::bad_header_crc);
  CHECK(header == before);
}

TEST_CASE("Another store, another store epoch or another space epoch alone gives bad_header_crc") {
  const Bytes block = sample_block();
  REQUIRE(parse(block) == BlobVerdict::good);

  for (std::size_t i = 0; i < sizeof(Uuid); ++i) {
    CAPTURE(i);
    BlobSeed seed = sample_seed();
    seed.store_uuid[i] ^= 1;
    CHECK(parse(block, seed) == BlobVerdict::bad_header_crc);
  }
  for (const int step : {-1, 1}) {
    CAPTURE(step);
    BlobSeed seed = sample_seed();
    seed.store_epoch += static_cast<std::uint64_t>(step);
    CHECK(parse(block, seed) == BlobVerdict::bad_header_crc);
    seed = sample_seed();
    seed.space_epoch += static_cast<std::uint64_t>(step);
    CHECK(parse(block, seed) == BlobVerdict::bad_header_crc);
  }
  BlobSeed swapped = sample_seed();
  std::swap(swapped.store_epoch, swapped.space_epoch);
  CHECK(parse(block, swapped) == BlobVerdict::bad_header_crc);
}

TEST_CASE("The checksum covers the payload's checksum, which no expectation names") {
  BlobHeader header = sample_header();
  header.magic = kBlobMagic;
  header.version = kDiskVersion;
  const std::uint32_t before = blob_header_crc(header, sample_seed());
  header.payload_crc ^= 0x80000000U;
  CHECK(blob_header_crc(header, sample_seed()) != before);
}

TEST_CASE("Metadata of every length from none to the most comes back") {
  for (const std::size_t size : {0U, 1U, 7U, 4000U, kMetadataBytesMax}) {
    CAPTURE(size);
    Bytes metadata(size);
    for (std::size_t i = 0; i < size; ++i) {
      metadata[i] = static_cast<std::uint8_t>(i * 7 + 1);
    }
    const Bytes block = sample_block(metadata);

    std::span<const std::uint8_t> found = bytes_of("stale");
    REQUIRE(read_metadata(block, found) == BlobVerdict::good);
    CHECK(Bytes(found.begin(), found.end()) == metadata);
    CHECK(parse(block) == BlobVerdict::good);
  }
}

TEST_CASE("Every flipped bit of metadata, of its length and of its checksum gives bad_metadata") {
  const Bytes metadata(40, 0x5A);
  const Bytes good = sample_block(metadata);
  for (std::size_t bit = kMetadataAt * 8; bit < (kMetadataBytesAt + 40) * 8; ++bit) {
    CAPTURE(bit);
    Bytes block = good;
    flip(block, bit);
    CHECK(metadata_verdict(block) == BlobVerdict::bad_metadata);
    CHECK(parse(block) == BlobVerdict::good);
  }
}

TEST_CASE("Metadata that names more bytes than the block holds is refused before it is read") {
  for (const std::uint32_t size : {kMetadataBytesMax + 1, kBlockBytes, 0x80000000U, 0xFFFFFFFFU}) {
    CAPTURE(size);
    Bytes block = sample_block();
    std::memcpy(block.data() + kMetadataAt + offsetof(BlobMetadata, metadata_bytes), &size,
                sizeof size);
    CHECK(metadata_verdict(block) == BlobVerdict::bad_metadata);
  }
}

TEST_CASE("Metadata that ends one byte after the block is refused, even under a right checksum") {
  Bytes buffer(2 * std::size_t{kBlockBytes}, 0x5A);
  const std::uint32_t size = kMetadataBytesMax + 1;
  std::memcpy(buffer.data() + kMetadataAt + 4, &size, sizeof size);
  const std::uint32_t crc = crc32c(std::span(buffer).subspan(kMetadataAt + 4, 4 + size));
  std::memcpy(buffer.data() + kMetadataAt, &crc, sizeof crc);
  CHECK(metadata_verdict(buffer) == BlobVerdict::bad_metadata);
}

TEST_CASE("A block without metadata but with a metadata checksum is bad_metadata") {
  Bytes block = sample_block();
  block[kMetadataAt] = 1;
  CHECK(metadata_verdict(block) == BlobVerdict::bad_metadata);
}

TEST_CASE("Metadata of an earlier blob behind a new header and length does not verify") {
  const Bytes older = sample_block(Bytes(2000, 0x11));
  Bytes torn = sample_block(Bytes(2000, 0x22));
  std::copy(older.begin() + 512, older.end(), torn.begin() + 512);
  CHECK(metadata_verdict(torn) == BlobVerdict::bad_metadata);
}

TEST_CASE("A block of a wrong size or metadata too long to fit is our own error and ends us") {
  CHECK(test::dies_by_check([] {
    Bytes block(kBlockBytes - 1);
    encode_header_block(block, sample_header(), sample_seed(), {});
  }));
  CHECK(test::dies_by_check([] {
    Bytes block(kBlockBytes);
    encode_header_block(block, sample_header(), sample_seed(), Bytes(kMetadataBytesMax + 1));
  }));
  CHECK(test::dies_by_check([] { parse(Bytes(sizeof(BlobHeader) - 1)); }));
  CHECK(test::dies_by_check([] { metadata_verdict(Bytes(kBlockBytes - 1)); }));
}

TEST_CASE("A blob is one header block and its payload rounded up to whole blocks") {
  STATIC_REQUIRE(blob_bytes(0) == 4096);
  STATIC_REQUIRE(blob_bytes(1) == 8192);
  STATIC_REQUIRE(blob_bytes(4096) == 8192);
  STATIC_REQUIRE(blob_bytes(4097) == 12288);
  STATIC_REQUIRE(blob_bytes(65536) == 69632);
  STATIC_REQUIRE(blob_bytes(515328) == 520192);
  STATIC_REQUIRE(blob_bytes(2561024) == 2568192);
  STATIC_REQUIRE(blob_bytes(kPayloadBytesMax) == 4096 + (64ULL << 20));
  STATIC_REQUIRE(blob_bytes(0xFFFFFFFFU) == 4096 + (1ULL << 32));
}

TEST_CASE("Every verdict has a name of its own") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kBlobVerdicts; ++i) {
    names.insert(blob_verdict_name(static_cast<BlobVerdict>(i)));
  }
  CHECK(names.size() == kBlobVerdicts);
  CHECK(names.count("unknown") == 0);
  CHECK(blob_verdict_name(static_cast<BlobVerdict>(kBlobVerdicts)) == std::string("unknown"));
}

}  // namespace hc::proto_test
