// SPDX-License-Identifier: Apache-2.0
// group_commit: collects rows, flushes slabs, commits, frees limbo.
#include "daemon/engine/group_commit.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/works.h"
#include "daemon/log/log.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// After that many failures in a row nobody waits for a commit any more.
constexpr std::uint32_t kFailuresMax = 3;
// The queue of requests keeps room for these beside the syncs of one more group.
constexpr std::uint32_t kOverdueSyncsMax = kPartsMax / 2;

}  // namespace

GroupCommit::GroupCommit(Works& works) : works_(works), notes_(works.core) {}

void GroupCommit::set_rebuilding(bool rebuilding) {
  if (!has_work()) {
    first_waiting_ = works_.core.now;
  }
  rebuilding_ = rebuilding;
  state_dirty_ = true;
  request_soon();
}

void GroupCommit::mark_dirty(PageId id) {
  Page& page = works_.core.catalog->page(id);
  if (page.dirty || page.doomed) {
    return;
  }
  if (!has_work()) {
    first_waiting_ = works_.core.now;
  }
  page.dirty = true;
  dirty_.push_back(id);
}

void GroupCommit::add_erase(SpaceNo space, const PageHash& hash, FreeToken token) {
  if (!has_work()) {
    first_waiting_ = works_.core.now;
  }
  erases_.push_back({space, hash, token});
}

void GroupCommit::add_limbo(SlotRef slot) { limbo_.push_back(slot); }

void GroupCommit::add_flush(SlabId slab) {
  if (!has_work()) {
    first_waiting_ = works_.core.now;
  }
  if (std::find(flushes_.begin(), flushes_.end(), slab) == flushes_.end()) {
    flushes_.push_back(slab);
  }
}

void GroupCommit::request_soon() { soon_ = true; }

bool GroupCommit::has_work() const {
  return !dirty_.empty() || !erases_.empty() || !limbo_.empty() || !flushes_.empty() ||
         state_dirty_ || again_;
}

bool GroupCommit::is_failing() const {
  return index_dead_ || failures_ >= kFailuresMax ||
         works_.core.superblock->failures_in_row() >= kFailuresMax;
}

Instant GroupCommit::next_due() const {
  const Core& core = works_.core;
  const auto interval_ns = std::int64_t{core.options.commit_interval_ms} * kNsPerMs;
  const Instant at = soon_ ? core.now : first_waiting_ + interval_ns;
  return at < not_before_ ? not_before_ : at;
}

// By what an earlier group has asked of the disk: its end brings the next turn.
bool GroupCommit::held_up() const {
  return !notes_.quiet() || overdue_syncs_ > kOverdueSyncsMax;
}

bool GroupCommit::waits_for_time() const {
  return has_work() && state_ == State::idle && !paused_ && !held_up() &&
         works_.core.superblock->is_durable();
}

bool GroupCommit::due() const {
  const Core& core = works_.core;
  if (!has_work() || paused_ || held_up() || core.now < not_before_) {
    return false;
  }
  const auto interval_ns = std::int64_t{core.options.commit_interval_ms} * kNsPerMs;
  return soon_ || dirty_.size() >= core.options.commit_parts ||
         core.now - first_waiting_ >= interval_ns;
}

void GroupCommit::turn() {
  Core& core = works_.core;
  if (state_ == State::idle && due() && core.superblock->is_durable()) {
    start();
  }
  if (state_ == State::noting) {
    turn_notes();
  }
  if (state_ == State::flushing) {
    start_syncs();
  }
  if (state_ == State::committing) {
    if (auto outcome = core.index.poll()) {
      outcome->has_value() ? succeed() : fail(outcome->error());
    }
  }
}

void GroupCommit::start() {
  Core& core = works_.core;
  started_ = core.now;
  ++groups_;
  soon_ = false;
  group_ = Group{};
  group_.limbo = std::move(limbo_);
  limbo_.clear();
  collect_spaces();
  collect_erases();
  collect_puts();
  collect_again();
  for (const SlabId slab : flushes_) {
    add_group_flush(slab);
  }
  group_.wanted_flushes = std::exchange(flushes_, {});
  first_waiting_ = core.now;
  sequence_ += group_.flushes.empty() ? 0U : 1U;
  group_.rows.state = {sequence_, rebuilding_ || again_};
  state_dirty_ = false;
  if (fresh_) {
    group_.rows.fresh =
        IndexIdentity{core.superblock->current().store_uuid, core.superblock->current().epoch};
  }
  unanswered_ = false;
  late_code_ = Code::ok;
  state_ = State::noting;
  notes_.begin(sequence_, group_.flushes, group_.rows.spaces);
  turn_notes();
}

void GroupCommit::collect_spaces() {
  for (Space* space : works_.core.spaces->all()) {
    if (!space->in_index) {
      group_.rows.spaces.push_back(
          {space->number, space->descriptor,
           works_.core.family_of(space->number).shards_on_node});
    }
  }
}

// A page that was forgotten and stored again has a live row by now: put it instead.
void GroupCommit::collect_erases() {
  Core& core = works_.core;
  while (!erases_.empty()) {
    const Erase& erase = erases_.front();
    const PageId live =
        core.catalog == nullptr ? kNoPage : core.catalog->find(erase.space, erase.hash);
    if (live != kNoPage && core.catalog->has_stored_part(live)) {
      core.catalog->page(live).dirty = false;
      add_row(live);
    } else {
      group_.rows.erases.push_back({erase.space, erase.hash});
    }
    group_.erases.push_back(erase);
    erases_.pop_front();
  }
}

void GroupCommit::collect_puts() {
  Core& core = works_.core;
  while (!dirty_.empty()) {
    const PageId id = dirty_.front();
    dirty_.pop_front();
    Page& page = core.catalog->page(id);
    if (!page.in_use || page.doomed || !page.dirty) {
      continue;  // forgotten meanwhile, or the record serves another page that queued itself
    }
    page.dirty = false;
    add_row(id);
  }
}

void GroupCommit::add_row(PageId id) {
  Core& core = works_.core;
  const Page& page = core.catalog->page(id);
  IndexRow row;
  row.space = page.space;
  row.page = page.hash;
  row.last_access = page.last_access;
  for (std::uint32_t at = 0; at < core.catalog->parts_per_page(id); ++at) {
    const PartRef ref = core.catalog->ref(id, at);
    const Part& part = core.catalog->part(ref);
    if (part.l3 < L3State::written) {
      continue;
    }
    const PartSpec& spec = core.family_of(id).parts[at];
    const std::uint16_t volume = core.slab_of(ref).volume();
    row.parts.push_back({spec.kind, spec.shard, page.owner, volume, part.slot.value,
                         part.generation.value});
    if (part.l3 == L3State::written) {
      group_.written.push_back({ref, part.generation});
      add_group_flush(part.slab);
    }
  }
  group_.touched.push_back({page.space, page.hash});
  if (row.parts.empty()) {
    group_.rows.erases.push_back({page.space, page.hash});
  } else {
    group_.rows.puts.push_back(std::move(row));
  }
}

void GroupCommit::add_group_flush(SlabId slab) {
  auto& flushes = group_.flushes;
  if (std::find(flushes.begin(), flushes.end(), slab) == flushes.end()) {
    flushes.push_back(slab);
  }
}

void GroupCommit::commit_rows() {
  state_ = State::committing;
  IndexBatch batch;
  batch.spaces = group_.rows.spaces;
  batch.puts = std::move(group_.rows.puts);
  batch.erases = std::move(group_.rows.erases);
  batch.state = group_.rows.state;
  batch.fresh = group_.rows.fresh;
  works_.core.counters.rows_committed += batch.puts.size();
  works_.core.counters.rows_erased += batch.erases.size();
  HC_FAILPOINT(commit_flushed);
  works_.core.index.commit(std::move(batch));
  HC_FAILPOINT(commit_handed_over);
}

void GroupCommit::settle_written(const Group::Written& written) {
  Core& core = works_.core;
  Part& part = core.catalog->part(written.ref);
  if (part.l3 != L3State::written || part.generation != written.generation) {
    return;  // dropped or evicted meanwhile; its slot is in the next group's limbo
  }
  part.l3 = L3State::durable;
  part.repeats = 0;
  count_written(-1);
  core.slab_of(written.ref).mark_committed(part.slot);
  if (core.catalog->unsettled().contains(written.ref.value)) {
    core.catalog->unsettled().remove(written.ref.value);
  }
  if (!HC_MUTANT(durable_bit_not_published)) {
    works_.pages.publish_status(core.catalog->page_of(written.ref));
  }
  works_.events->part_durable(written.ref);
}

void GroupCommit::succeed() {
  Core& core = works_.core;
  ++core.counters.commits;
  ++core.moves;
  last_success_ = groups_;
  if (failures_ > 0) {
    log_info("commit.done", {{"after_failures", failures_}});
  }
  failures_ = 0;
  HC_FAILPOINT(commit_heard);
  index_dead_ = false;
  notes_.end(true);
  if (group_.rows.fresh) {
    fresh_ = false;
    ++core.counters.index_repairs;
    log_warn("index.repaired",
             {{"help", "the index was set aside; rows are put again from memory"}});
  }
  core.counters.commit_ns += static_cast<std::uint64_t>(core.now - started_);
  state_ = State::idle;
  Group group = std::move(group_);
  group_ = Group{};
  for (const IndexSpace& put : group.rows.spaces) {
    if (Space* space = core.spaces->find(put.number)) {
      space->in_index = true;
    }
  }
  for (const Group::Written& written : group.written) {
    settle_written(written);
  }
  HC_FAILPOINT(commit_settled);
  for (const SlotRef& slot : group.limbo) {
    Slab& slab = core.spaces->slabs().slab(slot.slab);
    if (slab.state(slot.slot) == SlotState::limbo) {
      slab.leave_limbo(slot.slot);
      HC_FAILPOINT(commit_slot_freed);
    }
  }
  for (const Erase& erase : group.erases) {
    works_.events->freed(erase.token);
    HC_FAILPOINT(commit_erase_told);
  }
}

}  // namespace hc
