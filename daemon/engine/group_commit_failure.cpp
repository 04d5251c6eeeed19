// SPDX-License-Identifier: Apache-2.0
// group_commit_failure: what becomes of a group that failed, of an index that died, and of
// a store that is cleared.
#include <algorithm>
#include <utility>

#include "daemon/engine/group_commit.h"
#include "daemon/engine/works.h"
#include "daemon/log/log.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// Pages looked at for one group when every row is put again: a few milliseconds.
constexpr std::uint32_t kAgainLooksMax = 8192;

}  // namespace

void GroupCommit::reset(const Result<void>& index_reset) {
  HC_CHECK(idle() && paused_);
  failures_ = 0;
  failure_code_ = Code::io_error;
  sequence_ = 0;  // marks of another epoch are not read: a start could not go on from more
  index_dead_ = !index_reset;
  rebuilding_ = false;
  state_dirty_ = false;
  again_ = fresh_ = !index_reset;  // the next group tries it again
  again_next_ = 0;
  for (const PageId id : dirty_) {
    works_.core.catalog->page(id).dirty = false;  // else it could never queue again
  }
  dirty_.clear();
  limbo_.clear();
  flushes_.clear();
  soon_ = false;
  // Last: what is told here may queue new erases.
  for (const Erase& erase : std::exchange(erases_, {})) {
    works_.events->freed(erase.token);
  }
}

// Everything goes back to the queues, by key: a record may serve another page by now.
void GroupCommit::requeue(const Group& group) {
  Core& core = works_.core;
  for (const IndexErase& row : group.touched) {
    const PageId page = core.catalog->find(row.space, row.page);
    page != kNoPage ? mark_dirty(page) : add_erase(row.space, row.page);
  }
  for (const Erase& erase : group.erases) {
    add_erase(erase.space, erase.hash, erase.token);
  }
  if (!HC_MUTANT(limbo_lost_on_failure)) {
    limbo_.insert(limbo_.end(), group.limbo.begin(), group.limbo.end());
  }
  // The flush of a written part comes again with its row, or goes with the part: a volume that has
  // failed holds up nobody else's rows.
  for (const SlabId slab : group.wanted_flushes) {
    add_flush(slab);
  }
  state_dirty_ = true;
}

// The catalog knows every row. Whatever the dead index may still take is not believed.
void GroupCommit::repair_index() {
  fresh_ = true;
  again_ = true;
  again_next_ = 0;
  soon_ = true;
  for (Space* space : works_.core.spaces->all()) {
    space->in_index = false;
  }
}

// The index is new and empty: no row of it can name a slot that is not the page's any more.
void GroupCommit::collect_again() {
  Core& core = works_.core;
  if (!again_) {
    return;
  }
  const std::uint32_t end =
      core.catalog == nullptr ? 0
                              : std::min(core.catalog->pages_max(), again_next_ + kAgainLooksMax);
  for (; again_next_ < end; ++again_next_) {
    const PageId id{again_next_};
    const Page& page = core.catalog->page(id);
    if (page.in_use && !page.doomed && core.catalog->has_stored_part(id)) {
      add_row(id);
    }
  }
  again_ = core.catalog != nullptr && again_next_ < core.catalog->pages_max();
  soon_ = again_;
}

// After a failed sync no written part of that slab is believed any more, whether or not it was in
// the group: the kernel may have dropped its bytes and marked them clean.
void GroupCommit::fail_unflushed(const std::vector<SlabId>& slabs, Code code) {
  Core& core = works_.core;
  if (slabs.empty() || core.catalog == nullptr) {
    return;
  }
  std::vector<PartRef> lost;
  const LruList& unsettled = core.catalog->unsettled();
  for (std::uint32_t at = unsettled.oldest(); at != kNone32; at = unsettled.newer_than(at)) {
    const SlabId slab = core.catalog->part(PartRef{at}).slab;
    if (std::find(slabs.begin(), slabs.end(), slab) != slabs.end() && !is_flushed(PartRef{at})) {
      lost.push_back(PartRef{at});
    }
  }
  for (const PartRef ref : lost) {
    const PageId page = core.catalog->page_of(ref);
    if (core.catalog->part(ref).l3 != L3State::written) {
      continue;
    }
    works_.pages.hold(page);  // the events below must not end it
    works_.spiller.write_again(ref, code);
    works_.pages.publish_status(page);
    works_.pages.drop_hold(page);
    works_.forget.settle(page);
    works_.pages.end_if_empty(page);
  }
}

// The group's own flush of it has ended well, and only its row is missing.
bool GroupCommit::is_flushed(PartRef ref) const {
  const Generation generation = works_.core.catalog->part(ref).generation;
  return state_ == State::committing &&
         std::any_of(group_.written.begin(), group_.written.end(), [&](const auto& written) {
           return written.ref == ref && written.generation == generation;
         });
}

// The index is dead, the disk does not answer, or commits go on failing: whoever waits for a part
// to become durable might wait for ever. The part may become durable after all.
void GroupCommit::tell_waiters() {
  const LruList& unsettled = works_.core.catalog->unsettled();
  std::vector<PartRef> parts;
  for (std::uint32_t at = unsettled.oldest(); at != kNone32; at = unsettled.newer_than(at)) {
    parts.push_back(PartRef{at});
  }
  for (const PartRef ref : parts) {
    if (works_.core.catalog->part(ref).l3 == L3State::written) {
      works_.events->part_spill_failed(ref, failure_code_);
    }
  }
}

void GroupCommit::tell_stalled() {
  if (works_.core.catalog != nullptr) {
    failure_code_ = Code::io_error;
    tell_waiters();
  }
}

void GroupCommit::fail(const Error& error) {
  Core& core = works_.core;
  ++core.counters.commit_failures;
  ++core.moves;
  if (++failures_ == 1) {  // the first of a row speaks for all
    log_warn("commit.failed", {{"reason", error.message()}});
  }
  state_ = State::idle;
  notes_.end(false);
  failure_code_ = error.code == Code::no_space ? Code::no_space : Code::io_error;
  // A new index is tried at once; only when that fails as well is there anything to tell.
  const bool died = core.index.is_dead();
  index_dead_ = died && group_.rows.fresh.has_value();
  not_before_ = core.now;
  if (!died || index_dead_) {
    not_before_ = core.now + std::int64_t{core.options.commit_interval_ms} * kNsPerMs;
  }
  const Group group = std::move(group_);
  group_ = Group{};
  requeue(group);
  if (died) {
    repair_index();
  }
  if (core.catalog != nullptr) {
    fail_unflushed(failed_syncs_, sync_code_);
    if (unanswered_ || is_failing()) {
      tell_waiters();
    }
  }
}

}  // namespace hc
