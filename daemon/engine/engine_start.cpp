// SPDX-License-Identifier: Apache-2.0
// engine_start: opens the store and leaves hold; a start that fails leaves nothing behind.
#include "daemon/engine/engine.h"
#include "daemon/log/log.h"
#include "daemon/store/volume_claim.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

// Memory of frames is known to the disk and to the copier as long as it is mapped.
void Engine::watch_arenas() {
  ArenaOptions& arenas = core_->options.spaces.arenas;
  arenas.on_mapped = [this](std::span<std::uint8_t> bytes, std::uint32_t frame_bytes) {
    disk_.add_memory(bytes);
    core_->copier.add_memory(bytes, frame_bytes);
  };
  arenas.on_unmapping = [this](std::span<std::uint8_t> bytes) {
    core_->copier.drop_memory(bytes);
    disk_.drop_memory(bytes);
  };
}

Result<void> Engine::open(const Uuid& new_uuid) {
  HC_CHECK(state_ == EngineState::closed);
  auto superblock = SuperblockFile::open(disk_, new_uuid);
  HC_TRY(superblock);
  superblock_ = std::move(*superblock);
  HC_TRY_VOID(claim_volumes(disk_, *superblock_, core_->options.drop_missing_volumes));
  if (!superblock_->is_durable()) {
    HC_TRY_VOID(superblock_->write_blocking_now());
    HC_FAILPOINT(volumes_claimed);
  }
  io_->open_probes();  // on volumes that are ours
  slabs_ = std::make_unique<SlabSet>(disk_, superblock_->current().store_uuid,
                                     core_->options.spaces.volumes());
  auto notes = NotesFile::open(disk_, *superblock_);
  HC_TRY(notes);
  notes_ = std::move(*notes);
  spaces_ = std::make_unique<SpaceSet>(*slabs_, *superblock_, core_->options.spaces);
  core_->superblock = superblock_.get();
  core_->notes = notes_.get();
  core_->spaces = spaces_.get();
  build_works();
  state_ = EngineState::holding;
  return {};
}

void Engine::build_works() {
  verbs_.reset();
  works_ = std::make_unique<Works>(*core_);
  verbs_ = std::make_unique<Verbs>(*works_);
}

Result<void> Engine::cold_start(ColdStartMode mode) {
  HC_CHECK(state_ == EngineState::holding);
  auto started = mode == ColdStartMode::clear ? start_empty() : start_load();
  if (!started) {
    abandon_start();
  }
  return started;
}

IndexIdentity Engine::identity() const {
  return {superblock_->current().store_uuid, superblock_->current().epoch};
}

// The superblock's new epoch is the commit point: with it durable the store is empty, whatever the
// index still says.
Result<void> Engine::start_empty() {
  superblock_->raise_epoch(true);
  HC_FAILPOINT(start_epoch_raised);
  HC_TRY_VOID(superblock_->write_blocking_now());
  HC_FAILPOINT(start_epoch_durable);
  auto opened = core_->index.open(identity());
  // A damaged index is no obstacle to an empty start.
  if (!opened && opened.error().code == Code::corrupt) {
    opened = core_->index.reset(identity());
  }
  HC_TRY(opened);
  HC_FAILPOINT(start_index_opened);
  notes_->forget_all_epochs();
  HC_TRY_VOID(slabs_->remove_others());  // of families before the clear
  begin_serving();
  return {};
}

Result<void> Engine::start_load() {
  if (superblock_->created()) {
    log_warn("store.new", {{"help", "there was none to load: is the volume there?"}});
  }
  // A clear that failed may have left its epoch on the disk: superseded before anything relies on
  // the old one.
  if (!superblock_->is_durable()) {
    HC_TRY_VOID(superblock_->write_blocking_now());
  }
  std::string damage;
  auto opened = core_->index.open(identity());
  if (!opened && opened.error().code == Code::corrupt) {
    damage = opened.error().message();
    opened = reset_damaged_index(damage);
  }
  HC_TRY_VOID(opened);
  HC_FAILPOINT(load_index_opened);
  auto started = start_recovery(damage);
  // Met by the reading of a file that had passed its check.
  if (!started && started.error().code == Code::corrupt && damage.empty()) {
    damage = started.error().message();
    drop_start();
    HC_TRY_VOID(reset_damaged_index(damage));
    started = start_recovery(damage);
  }
  HC_TRY_VOID(started);
  HC_FAILPOINT(load_index_read);
  load_progress_ = recovery_->progress();
  state_ = EngineState::loading;
  return {};
}

Result<void> Engine::start_recovery(const std::string& damage) {
  recovery_ = std::make_unique<Recovery>(*works_, core_->options.load_lazily);
  return recovery_->start(disk_, damage);
}

Result<void> Engine::reset_damaged_index(const std::string& damage) {
  log_warn("index.damaged", {{"reason", damage}});
  return core_->index.reset(identity());
}

// Nothing is in flight yet. What the start has built in memory goes.
void Engine::drop_start() {
  recovery_.reset();
  core_->catalog.reset();
  core_->slot_order.clear();
  build_works();
  if (auto closed = spaces_->abandon_families(); !closed) {
    log_warn("cold_start.close_failed", {{"reason", closed.error().message()}});
  }
}

// So that the next one begins where this one did.
void Engine::abandon_start() {
  drop_start();
  core_->index.close();
  superblock_->restore_durable();
}

void Engine::begin_serving() {
  if (recovery_ != nullptr && core_->catalog != nullptr) {
    scan_behind_ = std::make_unique<ScanBehind>(*works_, recovery_->take_unread());
    scanned_before_ = load_progress_.slots_scanned;
    dropped_before_ = load_progress_.dropped;
  }
  if (recovery_ != nullptr && recovery_->incomplete() && core_->catalog != nullptr) {
    rebuild_ = std::make_unique<Rebuild>(*works_, recovery_->named_unscanned());
    core_->rebuilding = true;
    works_->commit.set_rebuilding(true);
    ++core_->counters.index_rebuilds;
    load_progress_.slots_total += rebuild_->progress().total;
    load_progress_.rebuilding = true;
  }
  recovery_.reset();
  state_ = EngineState::serving;
}

void Engine::on_scan(const IoEvent& event) {
  if (recovery_ != nullptr) {
    recovery_->on_scan(event);
    return;
  }
  scan_behind_->on_scan(event);
}

// Behind a lazy load. It ends with its last header, or with a clear.
void Engine::turn_scan_behind() {
  if (scan_behind_ == nullptr) {
    return;
  }
  if (stopping_ || clearing_store_) {
    scan_behind_->stop();
  }
  scan_behind_->turn();
  load_progress_.slots_scanned = scanned_before_ + scan_behind_->progress().scanned;
  load_progress_.dropped = dropped_before_ + scan_behind_->progress().dropped;
  if (scan_behind_->done()) {
    scan_behind_.reset();
  }
}

// It ends with the last slot, or with a clear. Until the commit that says so is durable, a restart
// begins it anew.
void Engine::turn_rebuild() {
  if (rebuild_ == nullptr) {
    return;
  }
  const bool over = stopping_ || clearing_store_;
  if (over) {
    rebuild_->stop();
    core_->rebuilding = false;
  }
  rebuild_->turn();
  wants_turn_ = wants_turn_ || rebuild_->wants_turn();
  const Rebuild::Progress& progress = rebuild_->progress();
  load_progress_.slots_scanned = scanned_before_ + progress.scanned;
  load_progress_.adopted = progress.adopted;
  if (!rebuild_->done()) {
    return;
  }
  if (!over) {
    log_info("index.rebuilt", {{"slots_scanned", progress.scanned},
                               {"parts_adopted", progress.adopted},
                               {"slots_unreadable", progress.unreadable}});
    works_->commit.set_rebuilding(false);
  }
  load_progress_.rebuilding = false;
  core_->rebuilding = false;
  rebuild_.reset();
}

bool Engine::scans_idle() const {
  return (scan_behind_ == nullptr || scan_behind_->idle()) &&
         (rebuild_ == nullptr || rebuild_->idle());
}

}  // namespace hc
