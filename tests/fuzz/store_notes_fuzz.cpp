// SPDX-License-Identifier: Apache-2.0
// store_notes_fuzz: commit marks, a space note and a block of forgotten pages, of any bytes.
//
// Input: which format (0 marks, 1 space, 2 forgotten; bit 7: right checksums), then its bytes;
// zeros follow.
#include "proto/store_notes.h"

#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace hc;

const Uuid kStore = [] {
  Uuid uuid{};
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<std::uint8_t>(0x10 + i);
  }
  return uuid;
}();
constexpr std::uint64_t kEpoch = 3;

void try_marks(fuzz::Bytes bytes, bool seal) {
  bytes.resize(kMarkCopies * std::size_t{kBlockBytes});
  for (std::uint32_t copy = 0; seal && copy < kMarkCopies; ++copy) {
    fuzz::reseal(bytes.data() + std::size_t{copy} * kBlockBytes, sizeof(CommitMark));
  }
  const auto found = parse_commit_marks(bytes, kStore, kEpoch);
  HC_CHECK(found || !found.error().message().empty());
}

void try_space(fuzz::Bytes bytes, bool seal) {
  bytes.resize(kSpaceNoteBytes);
  SpaceNote note{};
  std::memcpy(&note, bytes.data(), sizeof note);
  if (seal && note.descriptor_bytes <= kDescriptorBytesMax) {
    fuzz::reseal(bytes.data(), sizeof note + note.descriptor_bytes);
  }
  const auto found = decode_space_note(bytes);
  if (found) {
    fuzz::Bytes again(kSpaceNoteBytes);
    encode_space_note(again, *found);
    HC_CHECK(decode_space_note(again)->descriptor == found->descriptor);
  }
}

void try_forgotten(fuzz::Bytes bytes, bool seal) {
  bytes.resize(kBlockBytes);
  if (seal) {
    fuzz::reseal(bytes.data(), bytes.size());
  }
  const auto found = decode_forgotten(bytes, kStore, kEpoch);
  if (found) {
    HC_CHECK(found->pages.size() <= kForgottenPagesPerBlock);
    fuzz::Bytes again(kBlockBytes);
    encode_forgotten(again, *found, kStore, kEpoch);
    HC_CHECK(decode_forgotten(again, kStore, kEpoch)->pages == found->pages);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  fuzz::Input input(data, size_bytes);
  const std::uint8_t first = input.byte();
  const bool seal = (first & 0x80) != 0;
  switch ((first & 0x7F) % 3) {
    case 0: try_marks(input.take_rest(), seal); break;
    case 1: try_space(input.take_rest(), seal); break;
    default: try_forgotten(input.take_rest(), seal); break;
  }
  return 0;
}
