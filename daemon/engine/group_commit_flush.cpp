// SPDX-License-Identifier: Apache-2.0
// group_commit_flush: the notes of a group, the flushes of its slabs, and how both end.
#include <cerrno>
#include <utility>

#include "daemon/engine/group_commit.h"
#include "daemon/engine/works.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// Among the syncs of slabs: that of the notes.
constexpr std::uint32_t kNotesSync = 0xFFFF;

}  // namespace

void GroupCommit::turn_notes() {
  notes_.turn();
  if (!notes_.done()) {
    return;
  }
  if (notes_.code() == Code::ok) {
    start_flush();
  } else {
    unanswered_ = notes_.unanswered();
    fail(make_error(notes_.code(), "notes of the store", notes_.sys_errno()));
  }
}

void GroupCommit::start_flush() {
  Core& core = works_.core;
  state_ = State::flushing;
  HC_FAILPOINT(commit_collected);
  sync_code_ = Code::ok;
  failed_syncs_.clear();
  if (HC_MUTANT(rows_before_flush)) {
    group_.flushes.clear();
  }
  syncs_started_ = 0;
  syncs_left_ = static_cast<std::uint32_t>(group_.flushes.size());
  if (notes_.wrote_notes()) {
    ++syncs_left_;
    core.io.start_sync(core.notes->file(), io_cookie(IoOwner::commit, kNotesSync));
  }
  if (syncs_left_ == 0) {
    commit_rows();
  }
}

// There may be more slabs than the queue has jobs. A volume that hangs with all of its jobs has
// failed by then: its flush fails as one that was not tried.
void GroupCommit::start_syncs() {
  IoQueue& io = works_.core.io;
  while (state_ == State::flushing && syncs_started_ < group_.flushes.size()) {
    const SlabId slab = group_.flushes[syncs_started_];
    const FileId file = works_.core.spaces->slabs().slab(slab).file();
    const std::uint64_t cookie = io_cookie(IoOwner::commit, slab.value);
    if (io.can_start(IoKind::sync, volume_of(file))) {
      ++syncs_started_;
      io.start_sync(file, cookie);
    } else if (io.refuses(IoKind::sync, volume_of(file))) {
      ++syncs_started_;
      on_sync({IoKind::sync, Code::io_error, EIO, cookie});
    } else {
      return;
    }
  }
}

std::optional<SlabId> GroupCommit::slab_of_sync(const IoEvent& event) {
  const std::uint32_t value = io_value(event.cookie);
  return value == kNotesSync ? std::nullopt
                             : std::optional(SlabId{static_cast<std::uint16_t>(value)});
}

// What was written after the notice may be among the bytes that the device, or the kernel, gave up:
// also a mark or a note of the group that is under way, which fails.
void GroupCommit::fail_late(const IoEvent& event) {
  const Code code = event.code == Code::no_space ? Code::no_space : Code::io_error;
  late_code_ = code;
  if (const auto slab = slab_of_sync(event)) {
    works_.spiller.note_flush(*slab, true);
    fail_unflushed({*slab}, code);
  }
}

// A flush that is not answered in time counts as failed; when it fails in the end, it fails again.
void GroupCommit::on_sync(const IoEvent& event) {
  if (event.was_overdue) {
    --overdue_syncs_;
    if (event.code != Code::ok && !HC_MUTANT(late_failure_ignored)) {
      fail_late(event);
    }
    return;
  }
  overdue_syncs_ += event.overdue ? 1U : 0U;
  unanswered_ = unanswered_ || event.overdue;
  HC_CHECK(state_ == State::flushing);
  HC_CHECK(syncs_left_ > 0);
  --syncs_left_;
  const Code code = HC_FAILPOINT_FAILS(commit_slab_flushed) ? Code::io_error : event.code;
  const bool failed = code != Code::ok && !HC_MUTANT(failed_flush_believed);
  if (failed) {
    sync_code_ = code == Code::no_space ? Code::no_space : Code::io_error;
  }
  if (const auto slab = slab_of_sync(event)) {
    works_.spiller.note_flush(*slab, failed);
    if (failed) {
      failed_syncs_.push_back(*slab);
    }
  }
  if (syncs_left_ > 0) {
    return;
  }
  if (sync_code_ == Code::ok) {
    sync_code_ = late_code_;
  }
  if (sync_code_ == Code::ok) {
    commit_rows();
    return;
  }
  fail(make_error(sync_code_, "sync of a slab or of the notes", event.sys_errno));
  failed_syncs_.clear();
}

}  // namespace hc
