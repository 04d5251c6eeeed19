// SPDX-License-Identifier: Apache-2.0
// disk_headers: seal and judge the superblock and the slab header.
#include <cstring>
#include <memory>

#include "proto/blob_header.h"
#include "proto/checksum.h"
#include "proto/slab_header.h"
#include "proto/superblock.h"
#include "proto/versions.h"

namespace hc {

namespace {

// Both headers start with their checksum, which covers everything after it.
template <typename T>
std::uint32_t crc_after_first_word(const T& header) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&header);
  return crc32c({bytes + sizeof(std::uint32_t), sizeof(T) - sizeof(std::uint32_t)});
}

// A slab is cut by these numbers: none of them may lead to a division by zero, an overflow or a
// slot over the header, whoever wrote them.
bool geometry_is_possible(const SlabHeader& header) {
  return header.payload_bytes >= 1 && header.payload_bytes <= kPayloadBytesMax &&
         header.slot_bytes == blob_bytes(header.payload_bytes) && header.slot_count != 0 &&
         header.slots_per_step != 0 && header.first_slot_offset == kFirstSlotOffset;
}

}  // namespace

void seal_slab_header(SlabHeader& header) {
  header.magic = kSlabMagic;
  header.version = kDiskVersion;
  header.header_crc = crc_after_first_word(header);
}

Result<SlabHeader> parse_slab_header(std::span<const std::uint8_t> blocks) {
  HC_CHECK(blocks.size() >= std::size_t{kSlabHeaderCopies} * kBlockBytes);
  for (std::uint32_t copy = 0; copy < kSlabHeaderCopies; ++copy) {
    SlabHeader header;
    std::memcpy(&header, blocks.data() + std::size_t{copy} * kBlockBytes, sizeof header);
    if (header.magic != kSlabMagic || header.header_crc != crc_after_first_word(header)) {
      continue;
    }
    if (header.version != kDiskVersion) {
      return make_error(Code::refused, "slab version " + std::to_string(header.version) +
                                           ": this build reads version " +
                                           std::to_string(kDiskVersion));
    }
    if (header.reserved != 0 || !geometry_is_possible(header)) {
      return make_error(Code::corrupt, "slab header has impossible geometry");
    }
    return header;
  }
  return make_error(Code::corrupt, "no valid copy of the slab header");
}

void seal_superblock(Superblock& superblock) {
  superblock.magic = kSuperblockMagic;
  superblock.version = kDiskVersion;
  superblock.superblock_crc = crc_after_first_word(superblock);
}

std::uint32_t good_superblock_copies(std::span<const std::uint8_t> copies) {
  HC_CHECK(copies.size() >= kSuperblockCopies * kSuperblockCopyBytes);
  const auto found = std::make_unique<Superblock>();
  std::uint32_t good = 0;
  for (std::uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    std::memcpy(found.get(), copies.data() + copy * kSuperblockCopyBytes, sizeof *found);
    const bool verifies = found->magic == kSuperblockMagic &&
                          found->superblock_crc == crc_after_first_word(*found);
    good += verifies ? 1U : 0U;
  }
  return good;
}

Result<Superblock> parse_superblock(std::span<const std::uint8_t> copies) {
  HC_CHECK(copies.size() >= kSuperblockCopies * kSuperblockCopyBytes);
  auto best = std::make_unique<Superblock>();
  auto found = std::make_unique<Superblock>();
  bool have_best = false;
  bool any_magic = false;
  for (std::uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    std::memcpy(found.get(), copies.data() + copy * kSuperblockCopyBytes, sizeof *found);
    any_magic = any_magic || found->magic == kSuperblockMagic;
    if (found->magic != kSuperblockMagic ||
        found->superblock_crc != crc_after_first_word(*found)) {
      continue;
    }
    if (found->version != kDiskVersion) {
      return make_error(Code::refused, "store version " + std::to_string(found->version) +
                                           ": this build reads version " +
                                           std::to_string(kDiskVersion));
    }
    if (found->space_count > kSpaceEpochsMax) {
      return make_error(Code::corrupt, "superblock names too many spaces");
    }
    if ((found->volumes & 1) != 0 || found->reserved2 != 0) {
      return make_error(Code::corrupt, "superblock uses its spare bytes");
    }
    if (!have_best || found->sequence > best->sequence) {
      std::swap(best, found);
      have_best = true;
    }
  }
  if (have_best) {
    return *best;
  }
  return any_magic ? make_error(Code::corrupt, "no valid copy of the superblock")
                   : make_error(Code::not_found, "no superblock");
}

}  // namespace hc
