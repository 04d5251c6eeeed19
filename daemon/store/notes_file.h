// SPDX-License-Identifier: Apache-2.0
// notes_file: the file `notes` beside the superblock: descriptors of spaces, and pages that were
// forgotten. What an index that is built anew from slots could not know.
//
// Owner: the reactor thread.
// Invariants:
//   - one write is staged at a time; what is staged counts once `end_write(ok)` was told, after
//     the file was synced
//   - a block of forgotten pages is never written over while it is the only place of one of them:
//     a full file first raises the floor, under which no old blob is believed
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/os/disk.h"
#include "daemon/store/aligned_buffer.h"
#include "daemon/store/superblock_file.h"
#include "proto/store_notes.h"

namespace hc {

class NotesFile {
 public:
  // Opens or creates the file and reads it. Blocking.
  static Result<std::unique_ptr<NotesFile>> open(Disk& disk, const SuperblockFile& superblock);

  // The space of this number, if its note is there and is that of the superblock's space.
  const NotedSpace* space(SpaceNo number) const;

  // Takes effect at once; durable with the next write.
  void forget(SpaceNo space, const PageHash& page);
  // Whether a blob of this page and generation was written before the page was forgotten.
  bool is_forgotten(SpaceNo space, const PageHash& page, Generation generation) const;
  // The same by the list alone, without the floor under it.
  bool is_listed(SpaceNo space, const PageHash& page, Generation generation) const;
  // The store was cleared: its epoch says more than any list.
  void forget_all_epochs();

  struct Write {
    std::uint64_t offset_bytes = 0;
    AlignedBuffer bytes;
  };
  struct NewSpace {
    SpaceNo number{};
    NotedSpace space;
  };
  // Everything that waits, as writes of this file; empty: nothing waits. The caller writes and
  // syncs them and then tells how that ended.
  std::vector<Write> stage(const std::vector<NewSpace>& spaces);
  void end_write(bool ok);
  FileId file() const { return file_; }

 private:
  struct Block {
    std::uint32_t place = 0;
    ForgottenList list;
  };
  NotesFile(Disk& disk, FileId file, const SuperblockFile& superblock)
      : disk_(disk), file_(file), superblock_(superblock) {}
  Result<void> read();
  Result<void> read_forgotten();
  void sort_blocks();
  void drop_covered_blocks();
  void raise_floor(Generation generation);
  void raise_floor_over(const ForgottenList& list);
  void stage_forgotten(std::vector<Write>& writes);
  void drop_pages(const ForgottenList& list);

  using Key = std::pair<std::uint32_t, PageHash>;

  Disk& disk_;
  FileId file_;
  const SuperblockFile& superblock_;
  std::map<std::uint32_t, NotedSpace> spaces_;
  std::map<Key, Generation> forgotten_;
  std::optional<Generation> floor_;
  std::vector<ForgottenPage> pending_;      // in no block yet
  std::deque<Block> blocks_;                // durable, oldest first
  std::vector<std::uint32_t> free_places_;
  std::uint64_t next_sequence_ = 1;
  // Of the write in flight.
  std::vector<Block> staged_;
  std::vector<Block> leaving_;              // superseded, or under the floor, once it is durable
  std::vector<ForgottenPage> staged_pages_;
  std::vector<NewSpace> staged_spaces_;
};

}  // namespace hc
