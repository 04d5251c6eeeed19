// SPDX-License-Identifier: Apache-2.0
// recovery_marks: what the store knows beside its index, and whether the index knows as much.
#include "daemon/engine/recovery.h"
#include "daemon/log/log.h"
#include "daemon/store/commit_marks.h"

namespace hc {

// Before any slab is opened: an index that was lost names no space.
Result<void> Recovery::add_noted_spaces() {
  Core& core = works_.core;
  for (std::uint32_t number = 0; number < core.superblock->current().space_count; ++number) {
    if (const NotedSpace* noted = core.notes->space(SpaceNo{number})) {
      const auto added = core.spaces->add(noted->descriptor, noted->shards_on_node);
      HC_TRY(added);
    }
  }
  return {};
}

// A space whose note was lost gets it, and its row, with the next commit.
void Recovery::note_missing_notes() {
  for (Space* space : works_.core.spaces->all()) {
    space->in_index = space->in_index && works_.core.notes->space(space->number) != nullptr;
  }
}

Result<void> Recovery::compare_with_marks(Disk& disk, const std::string& damage) {
  Core& core = works_.core;
  const Superblock& store = core.superblock->current();
  const auto marks =
      read_commit_marks(disk, core.spaces->slabs(), store.store_uuid, store.epoch);
  HC_TRY(marks);
  const IndexState state = core.index.state();
  works_.commit.set_sequence(std::max(marks->sequence, state.commit_sequence));
  if (!damage.empty()) {
    incomplete_ = damage;
  } else if (state.rebuilding) {
    incomplete_ = "its rebuild was not finished";
  } else if (progress_.rows_damaged > 0) {
    incomplete_ = std::to_string(progress_.rows_damaged) + " of its rows are damaged";
  } else if (marks->unsure) {
    incomplete_ = "the commit marks of a slab are damaged";
  } else if (marks->sequence > state.commit_sequence && state.commit_sequence == 0) {
    incomplete_ = "it is missing, or was that of another store";
  } else if (marks->sequence > state.commit_sequence) {
    incomplete_ = "it is older than the slabs: commit " + std::to_string(state.commit_sequence) +
                  " of " + std::to_string(marks->sequence);
  }
  if (!incomplete()) {
    return {};
  }
  lazily_ = false;
  log_warn("index.incomplete", {{"reason", incomplete_},
                                {"help", "it is completed from the slots, serving meanwhile"}});
  return {};
}

}  // namespace hc
