// SPDX-License-Identifier: Apache-2.0
// notes_file: reads the notes at start, stages what a group commit has to write of them.
#include "daemon/store/notes_file.h"

#include <algorithm>
#include <utility>

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

namespace {

constexpr const char* kNotesName = "notes";
// Places that stay free, so that a write never lands on the only copy of anything.
constexpr std::size_t kPlacesKept = 2;

}  // namespace

Result<std::unique_ptr<NotesFile>> NotesFile::open(Disk& disk, const SuperblockFile& superblock) {
  auto file = disk.open(FileSpec{kNotesName, kNotesFileBytes, true, true});
  HC_TRY(file);
  std::unique_ptr<NotesFile> self(new NotesFile(disk, *file, superblock));
  HC_TRY_VOID(self->read());
  return self;
}

// A note that does not verify is as good as none: it is written again with the next commit.
Result<void> NotesFile::read() {
  HC_TRY_VOID(read_forgotten());
  AlignedBuffer note(kSpaceNoteBytes);
  const Superblock& known = superblock_.current();
  for (std::uint32_t number = 0; number < known.space_count; ++number) {
    HC_TRY_VOID(disk_.read_now(file_, kSpaceNotesOffset + number * kSpaceNoteBytes, note.bytes()));
    auto space = decode_space_note(note.bytes());
    if (space && make_space_id(space->descriptor) == known.spaces[number].space) {
      spaces_.emplace(number, std::move(*space));
    } else if (!space && space.error().code != Code::not_found) {
      log_warn("notes.damaged", {{"space", number}, {"reason", space.error().message()}});
    }
  }
  return {};
}

Result<void> NotesFile::read_forgotten() {
  AlignedBuffer bytes(kSpaceNotesOffset);
  HC_TRY_VOID(disk_.read_now(file_, 0, bytes.bytes()));
  const Superblock& known = superblock_.current();
  for (std::uint32_t place = kForgottenBlocks; place-- > 0;) {
    const auto block =
        bytes.bytes().subspan(std::size_t{place} * kBlockBytes, std::size_t{kBlockBytes});
    auto list = decode_forgotten(block, known.store_uuid, known.epoch);
    if (!list) {
      free_places_.push_back(place);
      continue;
    }
    next_sequence_ = std::max(next_sequence_, list->sequence + 1);
    if (list->floor) {
      raise_floor(*list->floor);
    }
    blocks_.push_back({place, std::move(*list)});
  }
  sort_blocks();
  drop_covered_blocks();
  return {};
}

void NotesFile::sort_blocks() {
  std::sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) {
    return a.list.sequence < b.list.sequence;
  });
}

// A place that was left is not wiped. Its pages stand in a younger block or under the floor.
void NotesFile::drop_covered_blocks() {
  std::deque<Block> kept;
  while (!blocks_.empty()) {
    Block block = std::move(blocks_.back());
    blocks_.pop_back();
    bool covered = true;
    for (const ForgottenPage& page : block.list.pages) {
      const Generation generation{page.generation};
      const bool is_covered = is_forgotten(SpaceNo{page.space}, page.page, generation);
      covered = covered && is_covered;
      if (!is_covered) {
        forgotten_.insert_or_assign({page.space, page.page}, generation);
      }
    }
    if (covered) {
      free_places_.push_back(block.place);
    } else {
      kept.push_front(std::move(block));
    }
  }
  blocks_ = std::move(kept);
  for (; free_places_.size() < kPlacesKept; blocks_.pop_front()) {  // not what this file writes
    raise_floor_over(blocks_.front().list);
    free_places_.push_back(blocks_.front().place);
  }
}

const NotedSpace* NotesFile::space(SpaceNo number) const {
  const auto found = spaces_.find(number.value);
  const bool known = found != spaces_.end() && number.value < superblock_.current().space_count &&
                     make_space_id(found->second.descriptor) ==
                         superblock_.current().spaces[number.value].space;
  return known ? &found->second : nullptr;
}

void NotesFile::raise_floor(Generation generation) {
  if (!floor_ || generation_is_before(floor_->value, generation.value)) {
    floor_ = generation;
  }
}

void NotesFile::raise_floor_over(const ForgottenList& list) {
  for (const ForgottenPage& page : list.pages) {
    raise_floor(Generation{page.generation});
  }
}

void NotesFile::forget(SpaceNo space, const PageHash& page) {
  const Generation newest = superblock_.newest_generation();
  forgotten_.insert_or_assign({space.value, page}, newest);
  pending_.push_back({page, space.value, newest.value});
}

bool NotesFile::is_forgotten(SpaceNo space, const PageHash& page, Generation generation) const {
  return (floor_ && !generation_is_before(floor_->value, generation.value)) ||
         is_listed(space, page, generation);
}

bool NotesFile::is_listed(SpaceNo space, const PageHash& page, Generation generation) const {
  const auto found = forgotten_.find({space.value, page});
  return found != forgotten_.end() &&
         !generation_is_before(found->second.value, generation.value);
}

// What was staged for the old epoch meanwhile is written and means nothing.
void NotesFile::forget_all_epochs() {
  HC_CHECK(staged_.empty());
  for (const Block& block : blocks_) {
    free_places_.push_back(block.place);
  }
  blocks_.clear();
  pending_.clear();
  forgotten_.clear();
  floor_.reset();
}

// An entry that a younger block has as well goes all the same: its generation is under the floor.
void NotesFile::drop_pages(const ForgottenList& list) {
  for (const ForgottenPage& page : list.pages) {
    const auto found = forgotten_.find({page.space, page.page});
    if (found != forgotten_.end() && found->second.value == page.generation && floor_ &&
        !generation_is_before(floor_->value, page.generation)) {
      forgotten_.erase(found);
    }
  }
}

// The last block that is not full is written again with more in it, in another place.
void NotesFile::stage_forgotten(std::vector<Write>& writes) {
  staged_pages_ = std::exchange(pending_, {});
  std::vector<ForgottenPage> pages;
  if (!blocks_.empty() && blocks_.back().list.pages.size() < kForgottenPagesPerBlock) {
    pages = blocks_.back().list.pages;
    leaving_.push_back(std::move(blocks_.back()));
    blocks_.pop_back();
  }
  pages.insert(pages.end(), staged_pages_.begin(), staged_pages_.end());
  HC_CHECK(free_places_.size() >= kPlacesKept);
  const std::size_t room = (free_places_.size() - kPlacesKept + 1) * kForgottenPagesPerBlock;
  std::size_t first = 0;
  for (; pages.size() - first > room; ++first) {
    raise_floor(Generation{pages[first].generation});
  }
  const std::size_t blocks =
      (pages.size() - first + kForgottenPagesPerBlock - 1) / kForgottenPagesPerBlock;
  // Before the places run out, the oldest pages go under the floor that these blocks carry.
  while (free_places_.size() + leaving_.size() < blocks + kPlacesKept && !blocks_.empty()) {
    raise_floor_over(blocks_.front().list);
    leaving_.push_back(std::move(blocks_.front()));
    blocks_.pop_front();
  }
  for (; first < pages.size(); first += kForgottenPagesPerBlock) {
    const std::size_t end = std::min(pages.size(), first + kForgottenPagesPerBlock);
    Block block{free_places_.back(), {next_sequence_++, floor_, {}}};
    free_places_.pop_back();
    block.list.pages.assign(pages.begin() + static_cast<std::ptrdiff_t>(first),
                            pages.begin() + static_cast<std::ptrdiff_t>(end));
    Write write{std::uint64_t{block.place} * kBlockBytes, AlignedBuffer(kBlockBytes)};
    const Superblock& known = superblock_.current();
    encode_forgotten(write.bytes.bytes(), block.list, known.store_uuid, known.epoch);
    writes.push_back(std::move(write));
    staged_.push_back(std::move(block));
  }
}

std::vector<NotesFile::Write> NotesFile::stage(const std::vector<NewSpace>& spaces) {
  HC_CHECK(staged_.empty() && staged_spaces_.empty());
  std::vector<Write> writes;
  for (const NewSpace& entry : spaces) {
    Write write{kSpaceNotesOffset + entry.number.value * kSpaceNoteBytes,
                AlignedBuffer(kSpaceNoteBytes)};
    encode_space_note(write.bytes.bytes(), entry.space);
    writes.push_back(std::move(write));
  }
  staged_spaces_ = spaces;
  if (!pending_.empty()) {
    stage_forgotten(writes);
  }
  return writes;
}

// A write that failed may have reached the disk: what it says is true all the same, and its places
// are free. What it would have superseded stays.
void NotesFile::end_write(bool ok) {
  for (const NewSpace& entry : staged_spaces_) {
    if (ok) {
      spaces_.insert_or_assign(entry.number.value, entry.space);
    }
  }
  staged_spaces_.clear();
  for (Block& block : ok ? leaving_ : staged_) {
    free_places_.push_back(block.place);
    if (ok) {
      drop_pages(block.list);
    }
  }
  std::vector<Block> stay = std::exchange(ok ? staged_ : leaving_, {});
  for (Block& block : stay) {
    blocks_.push_back(std::move(block));
  }
  sort_blocks();
  staged_.clear();
  leaving_.clear();
  if (!ok) {
    pending_.insert(pending_.begin(), staged_pages_.begin(), staged_pages_.end());
  }
  staged_pages_.clear();
}

}  // namespace hc
