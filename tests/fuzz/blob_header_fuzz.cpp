// SPDX-License-Identifier: Apache-2.0
// blob_header_fuzz: a header block of any bytes, with its metadata.
//
// Input: flags (bit 0: right header checksum, bit 1: right metadata checksum), then the block's
// first bytes; the rest of the block is zero.
#include "proto/blob_header.h"

#include "tests/fuzz/fuzz_input.h"

namespace hc::fuzz {
namespace {

constexpr std::size_t kMetadataAt = sizeof(BlobHeader);

BlobSeed seed() {
  BlobSeed seed{};
  seed.store_epoch = 3;
  seed.space_epoch = 5;
  return seed;
}

void make_header_right(Bytes& block) {
  BlobHeader header;
  std::memcpy(&header, block.data(), sizeof header);
  header.header_crc = blob_header_crc(header, seed());
  std::memcpy(block.data(), &header, sizeof header);
}

void make_metadata_right(Bytes& block) {
  BlobMetadata meta;
  std::memcpy(&meta, block.data() + kMetadataAt, sizeof meta);
  if (meta.metadata_bytes > 0 && meta.metadata_bytes <= kMetadataBytesMax) {
    const std::size_t covered = sizeof meta + meta.metadata_bytes;
    reseal(block.data() + kMetadataAt, covered);
  }
}

BlobExpectation expectation_of(const BlobHeader& header) {
  return {header.kind,      header.payload_bytes, header.page_hash,
          header.space_tag, SlotId{header.slot},  Generation{header.generation}};
}

void check_judgement(const BlobHeader& header) {
  const BlobExpectation same = expectation_of(header);
  HC_CHECK(judge_header(header, same) == BlobVerdict::good);
  BlobExpectation other = same;
  other.slot.value ^= 1;
  HC_CHECK(judge_header(header, other) == BlobVerdict::wrong_slot);
  other = same;
  other.generation.value ^= 1;
  HC_CHECK(judge_header(header, other) == BlobVerdict::wrong_generation);
}

}  // namespace
}  // namespace hc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace hc;
  fuzz::Input input(data, size_bytes);
  const std::uint8_t flags = input.byte();
  fuzz::Bytes block(kBlockBytes);
  fuzz::place(block, 0, input.take(kBlockBytes));
  if ((flags & 1) != 0) {
    fuzz::make_header_right(block);
  }
  if ((flags & 2) != 0) {
    fuzz::make_metadata_right(block);
  }

  std::span<const std::uint8_t> metadata;
  const BlobVerdict metadata_verdict = read_metadata(block, metadata);
  HC_CHECK(metadata.size() <= kMetadataBytesMax);
  HC_CHECK(metadata.empty() || metadata_verdict == BlobVerdict::good);
  HC_CHECK(metadata.empty() || metadata.data() + metadata.size() <= block.data() + block.size());
  BlobHeader header{};
  if (parse_header_block(block, fuzz::seed(), header) != BlobVerdict::good) {
    return 0;
  }
  fuzz::check_judgement(header);
  fuzz::Bytes again(kBlockBytes);
  encode_header_block(again, header, fuzz::seed(), metadata);
  const std::size_t used = sizeof(BlobHeader) + sizeof(BlobMetadata) + metadata.size();
  const std::size_t equal = metadata_verdict == BlobVerdict::good ? used : sizeof(BlobHeader);
  HC_CHECK(std::memcmp(again.data(), block.data(), equal) == 0);
  return 0;
}
