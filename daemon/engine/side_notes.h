// SPDX-License-Identifier: Apache-2.0
// side_notes: what a group commit writes beside the slots before it flushes them: a commit mark
// into every slab that it flushes, descriptors of new spaces, and pages that were forgotten.
//
// Owner: the reactor thread.
// With them an index that is lost, damaged or older than the slabs is found out and built anew.
//
//   The mark of commit n is flushed before commit n is begun, and the index holds n with it. So a
//   mark above what the index holds says: an old copy, an empty one, or a crash between the two.
//   In each case slots may hold what no row names, and are read (rebuild.h).
//
// A mark that can't be written costs only that proof; a note that can't be written fails the group.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/core.h"

namespace hc {

class SideNotes {
 public:
  explicit SideNotes(Core& core) : core_(core), mark_(kBlockBytes) {}

  // Of one group; the one before has ended, and no write of it is in flight.
  void begin(std::uint64_t sequence, const std::vector<SlabId>& slabs,
             const std::vector<IndexSpace>& spaces);
  void turn();  // starts writes
  void on_write(const IoEvent& event);
  // Every write has ended, or was not answered in time.
  bool done() const { return next_ == writes_.size() && in_flight_ == 0; }
  // No write is in flight that was not answered in time.
  bool quiet() const { return overdue_ == 0; }
  // Some write of this group was not answered in time.
  bool unanswered() const { return unanswered_; }
  // After the writes: ok, or why a note could not be written.
  Code code() const { return code_; }
  int sys_errno() const { return sys_errno_; }
  // The file of notes has to be synced with the slabs.
  bool wrote_notes() const { return !notes_.empty(); }
  // The sync of the notes, or the group, has ended.
  void end(bool ok);

 private:
  struct PendingWrite {
    FileId file{};
    std::uint64_t offset_bytes = 0;
    std::uint8_t* bytes = nullptr;
    std::uint64_t size_bytes = 0;
    bool is_mark = false;
  };

  Core& core_;
  AlignedBuffer mark_;                    // the same for every slab
  std::vector<NotesFile::Write> notes_;
  std::vector<PendingWrite> writes_;
  std::size_t next_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint32_t overdue_ = 0;
  bool unanswered_ = false;
  Code code_ = Code::ok;
  int sys_errno_ = 0;
  bool mark_warned_ = false;
};

}  // namespace hc
