// SPDX-License-Identifier: Apache-2.0
// store_notes: what must survive the index, beside the blobs.
//
// The index is derived from the slots and can be built anew from them. Three things a blob header
// does not say, and they are written here before a group commit counts on them:
//   CommitMark     in the spare blocks of a slab: how far the index must have come
//   SpaceNote      in the file `notes`: the descriptor behind a space's id
//   ForgottenBlock in the file `notes`: pages that free_object has forgotten; an older copy of them
//                  in a slot that was never written again is not the page
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/space.h"
#include "proto/wire_struct.h"

namespace hc {

// ---- Commit marks: two blocks of each slab, by the parity of the sequence.

inline constexpr std::uint32_t kMarkMagic = 0x4D434948;  // "HICM"
inline constexpr std::uint64_t kMarkOffset = 2 * kBlockBytes;
inline constexpr std::uint32_t kMarkCopies = 2;

// Written and flushed with the slab before the commit of this sequence.
struct CommitMark {
  std::uint32_t mark_crc;         // torn or rotten mark; covers the rest
  std::uint32_t magic;            // never written
  std::uint16_t version;
  std::uint16_t reserved;         // zero
  std::uint32_t reserved2;        // zero
  Uuid store_uuid;                // of another store
  std::uint64_t store_epoch;      // before a clear
  std::uint64_t commit_sequence;  // counts from one in each epoch
};
static_assert(WireStruct<CommitMark> && sizeof(CommitMark) == 48);
static_assert(offsetof(CommitMark, store_uuid) == 16 && offsetof(CommitMark, store_epoch) == 32);

void seal_commit_mark(CommitMark& mark);  // Sets magic, version and checksum.
// The newer sequence of the two blocks under this store and epoch; 0: none. corrupt: a block was
// written and neither verifies.
Result<std::uint64_t> parse_commit_marks(std::span<const std::uint8_t> blocks, const Uuid& store,
                                         std::uint64_t epoch);

// ---- The file `notes`: forgotten pages, then one place for each space by its number.

inline constexpr std::uint32_t kForgottenBlocks = 256;
inline constexpr std::uint64_t kSpaceNoteBytes = 3 * kBlockBytes;
inline constexpr std::uint64_t kSpaceNotesOffset = std::uint64_t{kForgottenBlocks} * kBlockBytes;
inline constexpr std::uint64_t kNotesFileBytes =
    kSpaceNotesOffset + kSpaceEpochsMax * kSpaceNoteBytes;

inline constexpr std::uint32_t kSpaceNoteMagic = 0x4E434948;  // "HICN"

// Stands before the encoded descriptor. Whether it is the space of its number is decided by the id
// that the superblock has, which is a hash of the descriptor.
struct SpaceNote {
  std::uint32_t note_crc;         // torn or rotten note; covers the rest and the descriptor
  std::uint32_t magic;            // never written
  std::uint16_t version;
  std::uint16_t shards_on_node;   // what the budget was split by
  std::uint32_t descriptor_bytes;
};
static_assert(WireStruct<SpaceNote> && sizeof(SpaceNote) == 16);
static_assert(sizeof(SpaceNote) + kDescriptorBytesMax <= kSpaceNoteBytes);

struct NotedSpace {
  SpaceDescriptor descriptor;
  std::uint16_t shards_on_node = 0;
};
void encode_space_note(std::span<std::uint8_t> place, const NotedSpace& space);
// Parses hostile bytes.
Result<NotedSpace> decode_space_note(std::span<const std::uint8_t> place);

inline constexpr std::uint32_t kForgottenMagic = 0x46434948;  // "HICF"

struct ForgottenPage {
  PageHash page;
  std::uint32_t space;       // number
  std::uint32_t generation;  // blobs up to this one are not the page any more
  friend bool operator==(const ForgottenPage&, const ForgottenPage&) = default;
};
static_assert(WireStruct<ForgottenPage> && sizeof(ForgottenPage) == 40);

// Stands at the start of its block; its pages follow.
struct ForgottenBlock {
  std::uint32_t block_crc;        // torn or rotten block; covers the rest of the block
  std::uint32_t magic;            // never written
  std::uint16_t version;
  std::uint16_t page_count;
  std::uint32_t floor;            // with has_floor: no blob up to this generation is believed
  Uuid store_uuid;                // of another store
  std::uint64_t store_epoch;      // before a clear
  std::uint64_t sequence;         // of blocks
  std::uint32_t has_floor;        // 0 or 1
  std::uint32_t reserved;         // zero
};
static_assert(WireStruct<ForgottenBlock> && sizeof(ForgottenBlock) == 56);
static_assert(offsetof(ForgottenBlock, store_uuid) == 16);

inline constexpr std::uint32_t kForgottenPagesPerBlock =
    (kBlockBytes - sizeof(ForgottenBlock)) / sizeof(ForgottenPage);

struct ForgottenList {
  std::uint64_t sequence = 0;
  std::optional<Generation> floor;
  std::vector<ForgottenPage> pages;
};
void encode_forgotten(std::span<std::uint8_t> block, const ForgottenList& list, const Uuid& store,
                      std::uint64_t epoch);
// not_found: nothing of this store and epoch stands there, or nothing that verifies.
Result<ForgottenList> decode_forgotten(std::span<const std::uint8_t> block, const Uuid& store,
                                       std::uint64_t epoch);

}  // namespace hc
