// SPDX-License-Identifier: Apache-2.0
// side_notes: small raw writes before the flush of a group.
#include "daemon/engine/side_notes.h"

#include <cstring>
#include <utility>

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

namespace {

// The queue of requests keeps as many for these writes as for the syncs that follow them.
constexpr std::uint32_t kNotesInFlightMax = kPartsMax;

}  // namespace

void SideNotes::begin(std::uint64_t sequence, const std::vector<SlabId>& slabs,
                      const std::vector<IndexSpace>& spaces) {
  HC_CHECK(done() && quiet());
  writes_.clear();
  next_ = 0;
  code_ = Code::ok;
  sys_errno_ = 0;
  unanswered_ = false;
  std::vector<NotesFile::NewSpace> new_spaces;
  for (const IndexSpace& space : spaces) {
    new_spaces.push_back({space.number, {space.descriptor, space.shards_on_node}});
  }
  notes_ = core_.notes->stage(new_spaces);
  for (NotesFile::Write& note : notes_) {
    writes_.push_back({core_.notes->file(), note.offset_bytes, note.bytes.data(),
                       note.bytes.bytes().size(), false});
  }
  CommitMark mark{};
  mark.store_uuid = core_.superblock->current().store_uuid;
  mark.store_epoch = core_.superblock->current().epoch;
  mark.commit_sequence = sequence;
  seal_commit_mark(mark);
  std::memcpy(mark_.data(), &mark, sizeof mark);
  const std::uint64_t offset = kMarkOffset + sequence % kMarkCopies * kBlockBytes;
  for (const SlabId slab : slabs) {
    const FileId file = core_.spaces->slabs().slab(slab).file();
    writes_.push_back({file, offset, mark_.data(), kBlockBytes, true});
  }
}

void SideNotes::turn() {
  while (next_ < writes_.size() && in_flight_ < kNotesInFlightMax) {
    const PendingWrite& write = writes_[next_];
    if (!core_.io.can_start(IoKind::write_raw, volume_of(write.file))) {
      return;
    }
    const BlobPlace place{write.file, write.offset_bytes, write.bytes, write.size_bytes};
    core_.io.start_write_raw(place, io_cookie(IoOwner::note, next_));
    ++next_;
    ++in_flight_;
  }
}

// A write that is not answered in time counts as failed; its bytes stay until it has ended.
void SideNotes::on_write(const IoEvent& event) {
  if (event.was_overdue) {
    HC_CHECK(overdue_ > 0);
    --overdue_;
    return;
  }
  HC_CHECK(in_flight_ > 0);
  --in_flight_;
  overdue_ += event.overdue ? 1U : 0U;
  unanswered_ = unanswered_ || event.overdue;
  const PendingWrite& write = writes_[io_value(event.cookie)];
  if (event.code == Code::ok) {
    return;
  }
  if (!write.is_mark) {
    code_ = event.code == Code::no_space ? Code::no_space : Code::io_error;
    sys_errno_ = event.sys_errno;
    return;
  }
  ++core_.counters.marks_failed;
  if (!std::exchange(mark_warned_, true)) {  // the first speaks for all
    log_warn("commit.mark_failed",
             {{"reason", make_error(event.code, "commit mark", event.sys_errno).message()}});
  }
}

void SideNotes::end(bool ok) {
  core_.notes->end_write(ok);
}

}  // namespace hc
