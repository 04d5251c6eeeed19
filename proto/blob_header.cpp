// SPDX-License-Identifier: Apache-2.0
// blob_header: make and judge the header block of a blob.
#include "proto/blob_header.h"

#include <cstring>

#include "proto/check.h"
#include "proto/checksum.h"
#include "proto/versions.h"

namespace hc {

namespace {

constexpr std::size_t kMetadataOffset = sizeof(BlobHeader);
constexpr std::size_t kMetadataDataOffset = kMetadataOffset + sizeof(BlobMetadata);

template <typename T>
std::span<const std::uint8_t> bytes_of(const T& object) {
  return {reinterpret_cast<const std::uint8_t*>(&object), sizeof(T)};
}

std::uint32_t metadata_crc(std::uint32_t size_bytes, std::span<const std::uint8_t> metadata) {
  return crc32c(metadata, crc32c(bytes_of(size_bytes)));
}

}  // namespace

std::uint32_t blob_header_crc(const BlobHeader& header, const BlobSeed& seed) {
  const std::uint32_t seeded = crc32c(bytes_of(seed));
  return crc32c(bytes_of(header).subspan(sizeof header.header_crc), seeded);
}

void encode_header_block(std::span<std::uint8_t> block, BlobHeader header, const BlobSeed& seed,
                         std::span<const std::uint8_t> metadata) {
  HC_CHECK(block.size() == kBlockBytes);
  HC_CHECK(metadata.size() <= kMetadataBytesMax);
  header.magic = kBlobMagic;
  header.version = kDiskVersion;
  header.header_crc = blob_header_crc(header, seed);
  std::memset(block.data(), 0, block.size());
  std::memcpy(block.data(), &header, sizeof header);
  if (metadata.empty()) {
    return;
  }
  BlobMetadata meta{};
  meta.metadata_bytes = static_cast<std::uint32_t>(metadata.size());
  meta.metadata_crc = metadata_crc(meta.metadata_bytes, metadata);
  std::memcpy(block.data() + kMetadataOffset, &meta, sizeof meta);
  std::memcpy(block.data() + kMetadataDataOffset, metadata.data(), metadata.size());
}

BlobVerdict parse_header_block(std::span<const std::uint8_t> block, const BlobSeed& seed,
                               BlobHeader& header) {
  HC_CHECK(block.size() >= sizeof(BlobHeader));
  BlobHeader found;
  std::memcpy(&found, block.data(), sizeof found);
  if (found.magic != kBlobMagic) {
    return BlobVerdict::unwritten;
  }
  if (found.header_crc != blob_header_crc(found, seed)) {
    return BlobVerdict::bad_header_crc;
  }
  if (found.version != kDiskVersion) {
    return BlobVerdict::bad_version;
  }
  header = found;
  return BlobVerdict::good;
}

BlobVerdict judge_header(const BlobHeader& header, const BlobExpectation& expectation) {
  if (header.kind != expectation.kind) {
    return BlobVerdict::wrong_kind;
  }
  if (header.payload_bytes != expectation.payload_bytes) {
    return BlobVerdict::wrong_size;
  }
  if (header.page_hash != expectation.page_hash) {
    return BlobVerdict::wrong_page;
  }
  if (header.space_tag != expectation.space_tag) {
    return BlobVerdict::wrong_space;
  }
  if (header.slot != expectation.slot.value) {
    return BlobVerdict::wrong_slot;
  }
  if (header.generation != expectation.generation.value) {
    return BlobVerdict::wrong_generation;
  }
  return BlobVerdict::good;
}

BlobVerdict read_metadata(std::span<const std::uint8_t> block,
                          std::span<const std::uint8_t>& metadata) {
  HC_CHECK(block.size() >= kBlockBytes);
  BlobMetadata meta;
  std::memcpy(&meta, block.data() + kMetadataOffset, sizeof meta);
  metadata = {};
  if (meta.metadata_bytes == 0) {
    return meta.metadata_crc == 0 ? BlobVerdict::good : BlobVerdict::bad_metadata;
  }
  if (meta.metadata_bytes > kMetadataBytesMax) {
    return BlobVerdict::bad_metadata;
  }
  const auto bytes = block.subspan(kMetadataDataOffset, meta.metadata_bytes);
  if (meta.metadata_crc != metadata_crc(meta.metadata_bytes, bytes)) {
    return BlobVerdict::bad_metadata;
  }
  metadata = bytes;
  return BlobVerdict::good;
}

const char* blob_verdict_name(BlobVerdict verdict) {
  switch (verdict) {
    case BlobVerdict::good: return "good";
    case BlobVerdict::unwritten: return "unwritten";
    case BlobVerdict::bad_header_crc: return "bad_header_crc";
    case BlobVerdict::bad_version: return "bad_version";
    case BlobVerdict::wrong_kind: return "wrong_kind";
    case BlobVerdict::wrong_size: return "wrong_size";
    case BlobVerdict::wrong_page: return "wrong_page";
    case BlobVerdict::wrong_space: return "wrong_space";
    case BlobVerdict::wrong_slot: return "wrong_slot";
    case BlobVerdict::wrong_generation: return "wrong_generation";
    case BlobVerdict::bad_payload_crc: return "bad_payload_crc";
    case BlobVerdict::bad_metadata: return "bad_metadata";
  }
  return "unknown";
}

}  // namespace hc
