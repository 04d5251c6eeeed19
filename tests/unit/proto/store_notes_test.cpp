// SPDX-License-Identifier: Apache-2.0
// store_notes_test: marks, space notes and forgotten pages, byte for byte, and each damage to them.
// proto/store_notes.cpp
#include "proto/store_notes.h"

#include <cstring>

#include "support/catch.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

constexpr std::uint64_t kEpoch = 3;

Bytes mark_blocks(std::uint64_t even, std::uint64_t odd) {
  Bytes blocks(kMarkCopies * std::size_t{kBlockBytes});
  for (const std::uint64_t sequence : {even, odd}) {
    CommitMark mark{};
    mark.store_uuid = sample_uuid();
    mark.store_epoch = kEpoch;
    mark.commit_sequence = sequence;
    seal_commit_mark(mark);
    if (sequence != 0) {
      std::memcpy(blocks.data() + sequence % kMarkCopies * kBlockBytes, &mark, sizeof mark);
    }
  }
  return blocks;
}

ForgottenList forgotten_list() {
  return {12, Generation{0x01020300},
          {{sample_page(0), 258, 0x01020304}, {sample_page(1), 0, 0x01020305}}};
}

}  // namespace

TEST_CASE("Golden bytes: a commit mark, a space note and a block of forgotten pages") {
  CHECK(mark_blocks(0, 41) == golden("commit_mark"));
  Bytes note(kSpaceNoteBytes);
  encode_space_note(note, {sample_space(), 6});
  CHECK(note == golden("space_note"));
  Bytes block(kBlockBytes);
  encode_forgotten(block, forgotten_list(), sample_uuid(), kEpoch);
  CHECK(block == golden("forgotten_block"));
}

TEST_CASE("of two commit marks the newer one counts, and a damaged one leaves the other") {
  CHECK(*parse_commit_marks(mark_blocks(0, 0), sample_uuid(), kEpoch) == 0);
  CHECK(*parse_commit_marks(mark_blocks(40, 41), sample_uuid(), kEpoch) == 41);
  CHECK(*parse_commit_marks(mark_blocks(42, 41), sample_uuid(), kEpoch) == 42);
  Bytes torn = mark_blocks(42, 41);
  torn[44] ^= 1;
  CHECK(*parse_commit_marks(torn, sample_uuid(), kEpoch) == 41);
  torn[kBlockBytes + 44] ^= 1;
  CHECK(parse_commit_marks(torn, sample_uuid(), kEpoch).error().code == Code::corrupt);
}

TEST_CASE("a commit mark of another store or from before a clear says nothing") {
  CHECK(*parse_commit_marks(mark_blocks(40, 41), Uuid{}, kEpoch) == 0);
  CHECK(*parse_commit_marks(mark_blocks(40, 41), sample_uuid(), kEpoch + 1) == 0);
}

TEST_CASE("a space note is read back, and each damage to it is found") {
  Bytes place(kSpaceNoteBytes);
  CHECK(decode_space_note(place).error().code == Code::not_found);
  encode_space_note(place, {sample_space(), 6});
  const auto found = decode_space_note(place);
  REQUIRE(found);
  CHECK(found->descriptor == sample_space());
  CHECK(found->shards_on_node == 6);
  const std::size_t used = sizeof(SpaceNote) + encode_space(sample_space()).size();
  for (std::size_t at = 0; at < used; ++at) {
    Bytes bad = place;
    bad[at] ^= 0x80;
    CHECK_FALSE(decode_space_note(bad));
  }
}

TEST_CASE("forgotten pages are read back, and each damage to their block is found") {
  Bytes block(kBlockBytes);
  encode_forgotten(block, forgotten_list(), sample_uuid(), kEpoch);
  const auto found = decode_forgotten(block, sample_uuid(), kEpoch);
  REQUIRE(found);
  CHECK(found->pages == forgotten_list().pages);
  CHECK(found->floor == forgotten_list().floor);
  CHECK(found->sequence == 12);
  for (std::size_t at = 0; at < block.size(); at += 3) {
    Bytes bad = block;
    bad[at] ^= 1;
    CHECK_FALSE(decode_forgotten(bad, sample_uuid(), kEpoch));
  }
  CHECK_FALSE(decode_forgotten(block, Uuid{}, kEpoch));
  CHECK_FALSE(decode_forgotten(block, sample_uuid(), kEpoch + 1));
}

}  // namespace hc::proto_test
