// SPDX-License-Identifier: Apache-2.0
// blob_header: the 64 bytes before each payload, in L2 and on disk, and the 4 KiB block they
// stand in.
//
// Each field names the fault it catches. The checksum covers the other 60 bytes and is seeded
// with the store's uuid, its epoch and the space's epoch, so that `clear` and `clear --space`
// are one small write and no old slot can come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/status.h"
#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::uint32_t kBlobMagic = 0x42434948;  // "HICB"

struct BlobHeader {
  std::uint32_t header_crc;     // torn header, another store, an epoch before a clear
  std::uint32_t magic;          // never written, foreign file
  std::uint16_t version;        // written by another format
  std::uint16_t kind;           // read as another payload kind
  std::uint32_t payload_bytes;  // geometry of another time
  PageHash page_hash;           // another page
  std::uint32_t payload_crc;    // torn or rotten payload
  std::uint32_t space_tag;      // another space or another shard
  std::uint32_t slot;           // misdirected write
  std::uint32_t generation;     // lost write: the slot still holds its earlier, valid blob
  friend bool operator==(const BlobHeader&, const BlobHeader&) = default;
};
static_assert(WireStruct<BlobHeader> && sizeof(BlobHeader) == 64);
static_assert(offsetof(BlobHeader, page_hash) == 16 && offsetof(BlobHeader, payload_crc) == 48);
static_assert(offsetof(BlobHeader, generation) == 60);

// Page metadata that a store may bring (parent hash, token ids); stands after the header.
struct BlobMetadata {
  std::uint32_t metadata_crc;    // torn or rotten metadata; covers the length and the bytes
  std::uint32_t metadata_bytes;  // 0: none
};
static_assert(WireStruct<BlobMetadata> && sizeof(BlobMetadata) == 8);

// The seed of header_crc: what a header must have been written under.
struct BlobSeed {
  Uuid store_uuid;
  std::uint64_t store_epoch;
  std::uint64_t space_epoch;
};
static_assert(WireStruct<BlobSeed> && sizeof(BlobSeed) == 32);

std::uint32_t blob_header_crc(const BlobHeader& header, const BlobSeed& seed);

// Writes `header` (its magic, version and checksum are set here) and the metadata into a
// 4 KiB block and zeroes the rest. `metadata` is at most kMetadataBytesMax.
void encode_header_block(std::span<std::uint8_t> block, BlobHeader header, const BlobSeed& seed,
                         std::span<const std::uint8_t> metadata);

// Why a header was not accepted; counted by reason. The order is the order of the checks.
enum class BlobVerdict : std::uint8_t {
  good,
  unwritten,        // magic is not ours
  bad_header_crc,   // torn, other store, or an earlier epoch
  bad_version,
  wrong_kind,
  wrong_size,
  wrong_page,
  wrong_space,
  wrong_slot,
  wrong_generation,
  bad_payload_crc,
  bad_metadata,
};
inline constexpr std::size_t kBlobVerdicts = 12;
const char* blob_verdict_name(BlobVerdict verdict);

// What the reader wants to find: every field is compared.
struct BlobExpectation {
  std::uint16_t kind;
  std::uint32_t payload_bytes;
  PageHash page_hash;
  std::uint32_t space_tag;
  SlotId slot;
  Generation generation;
};

// Parses only: magic, checksum under `seed`, version. Fills `header` when good.
BlobVerdict parse_header_block(std::span<const std::uint8_t> block, const BlobSeed& seed,
                               BlobHeader& header);
// Compares a parsed header with what was wanted. The payload is judged by its checksum later.
BlobVerdict judge_header(const BlobHeader& header, const BlobExpectation& expectation);
// The metadata of a block, empty when there is none; bad_metadata when it does not verify.
BlobVerdict read_metadata(std::span<const std::uint8_t> block,
                          std::span<const std::uint8_t>& metadata);

// Bytes of a blob: one header block, then the payload, rounded up to the O_DIRECT unit.
constexpr std::uint64_t blob_bytes(std::uint64_t payload_bytes) {
  return kBlockBytes + round_up(payload_bytes, kBlockBytes);
}

}  // namespace hc
