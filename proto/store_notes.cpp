// SPDX-License-Identifier: Apache-2.0
// store_notes: encode and judge commit marks, space notes and forgotten pages.
#include "proto/store_notes.h"

#include <algorithm>
#include <cstring>

#include "proto/check.h"
#include "proto/checksum.h"
#include "proto/versions.h"

namespace hc {

namespace {

constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);

template <typename Struct>
Struct read_struct(std::span<const std::uint8_t> bytes) {
  Struct out{};
  HC_CHECK(bytes.size() >= sizeof out);
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

std::span<const std::uint8_t> bytes_of(const CommitMark& mark) {
  return {reinterpret_cast<const std::uint8_t*>(&mark), sizeof mark};
}

bool is_good_mark(const CommitMark& mark) {
  return mark.magic == kMarkMagic && mark.version == kDiskVersion && mark.reserved == 0 &&
         mark.reserved2 == 0 && mark.mark_crc == crc32c(bytes_of(mark).subspan(kCrcBytes));
}

}  // namespace

void seal_commit_mark(CommitMark& mark) {
  mark.magic = kMarkMagic;
  mark.version = kDiskVersion;
  mark.mark_crc = crc32c(bytes_of(mark).subspan(kCrcBytes));
}

Result<std::uint64_t> parse_commit_marks(std::span<const std::uint8_t> blocks, const Uuid& store,
                                         std::uint64_t epoch) {
  HC_CHECK(blocks.size() == kMarkCopies * std::size_t{kBlockBytes});
  std::uint64_t newest = 0;
  bool written = false;
  bool good = false;
  for (std::uint32_t copy = 0; copy < kMarkCopies; ++copy) {
    const auto block = blocks.subspan(std::size_t{copy} * kBlockBytes, kBlockBytes);
    const auto mark = read_struct<CommitMark>(block);
    written = written ||
              std::any_of(block.begin(), block.end(), [](auto byte) { return byte != 0; });
    if (is_good_mark(mark)) {
      good = true;
      const bool ours = mark.store_uuid == store && mark.store_epoch == epoch;
      newest = ours ? std::max(newest, mark.commit_sequence) : newest;
    }
  }
  return written && !good ? Result<std::uint64_t>(make_error(Code::corrupt, "commit marks"))
                          : Result<std::uint64_t>(newest);
}

void encode_space_note(std::span<std::uint8_t> place, const NotedSpace& space) {
  HC_CHECK(place.size() == kSpaceNoteBytes);
  const std::vector<std::uint8_t> descriptor = encode_space(space.descriptor);
  SpaceNote note{0, kSpaceNoteMagic, kDiskVersion, space.shards_on_node,
                 static_cast<std::uint32_t>(descriptor.size())};
  HC_CHECK(sizeof note + descriptor.size() <= place.size());
  std::memset(place.data(), 0, place.size());
  std::memcpy(place.data() + sizeof note, descriptor.data(), descriptor.size());
  std::memcpy(place.data(), &note, sizeof note);
  note.note_crc = crc32c(place.subspan(kCrcBytes, sizeof note - kCrcBytes + descriptor.size()));
  std::memcpy(place.data(), &note, sizeof note);
}

Result<NotedSpace> decode_space_note(std::span<const std::uint8_t> place) {
  const auto note = read_struct<SpaceNote>(place);
  if (note.magic != kSpaceNoteMagic) {
    return make_error(Code::not_found, "no space note");
  }
  const bool fits = note.descriptor_bytes <= kDescriptorBytesMax &&
                    sizeof note + note.descriptor_bytes <= place.size();
  if (!fits || note.version != kDiskVersion ||
      note.note_crc !=
          crc32c(place.subspan(kCrcBytes, sizeof note - kCrcBytes + note.descriptor_bytes))) {
    return make_error(Code::corrupt, "space note does not verify");
  }
  auto descriptor = decode_space(place.subspan(sizeof note, note.descriptor_bytes));
  HC_TRY(descriptor);
  return NotedSpace{std::move(*descriptor), note.shards_on_node};
}

void encode_forgotten(std::span<std::uint8_t> block, const ForgottenList& list, const Uuid& store,
                      std::uint64_t epoch) {
  HC_CHECK(block.size() == kBlockBytes);
  HC_CHECK(list.pages.size() <= kForgottenPagesPerBlock);
  ForgottenBlock header{0,
                        kForgottenMagic,
                        kDiskVersion,
                        static_cast<std::uint16_t>(list.pages.size()),
                        list.floor ? list.floor->value : 0,
                        store,
                        epoch,
                        list.sequence,
                        list.floor ? 1U : 0U,
                        0};
  std::memset(block.data(), 0, block.size());
  std::memcpy(block.data(), &header, sizeof header);
  for (std::size_t i = 0; i < list.pages.size(); ++i) {
    std::memcpy(block.data() + sizeof header + i * sizeof(ForgottenPage), &list.pages[i],
                sizeof(ForgottenPage));
  }
  header.block_crc = crc32c(block.subspan(kCrcBytes));
  std::memcpy(block.data(), &header, sizeof header);
}

Result<ForgottenList> decode_forgotten(std::span<const std::uint8_t> block, const Uuid& store,
                                       std::uint64_t epoch) {
  HC_CHECK(block.size() == kBlockBytes);
  const auto header = read_struct<ForgottenBlock>(block);
  const bool good = header.magic == kForgottenMagic && header.version == kDiskVersion &&
                    header.page_count <= kForgottenPagesPerBlock && header.has_floor <= 1 &&
                    header.reserved == 0 && header.block_crc == crc32c(block.subspan(kCrcBytes));
  if (!good || header.store_uuid != store || header.store_epoch != epoch) {
    return make_error(Code::not_found, "no forgotten pages");
  }
  ForgottenList out;
  out.sequence = header.sequence;
  if (header.has_floor == 1) {
    out.floor = Generation{header.floor};
  }
  for (std::size_t i = 0; i < header.page_count; ++i) {
    out.pages.push_back(read_struct<ForgottenPage>(
        block.subspan(sizeof header + i * sizeof(ForgottenPage), sizeof(ForgottenPage))));
  }
  return out;
}

}  // namespace hc
