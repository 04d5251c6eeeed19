// SPDX-License-Identifier: Apache-2.0
// engine: opens the store, runs the turn, routes completions.
#include "daemon/engine/engine.h"

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

Engine::Engine(Disk& disk, Index& index, Copier& copier, CompletionSink& sink,
               const EngineOptions& options)
    : disk_(disk),
      io_(std::make_unique<IoQueue>(disk, options.io_inflight_bytes)),
      core_(std::make_unique<Core>(*io_, index, copier, sink, options)) {}

Engine::~Engine() = default;

Result<void> Engine::open(const Uuid& new_uuid) {
  HC_CHECK(state_ == EngineState::closed);
  auto superblock = SuperblockFile::open(disk_, new_uuid);
  HC_TRY(superblock);
  superblock_ = std::move(*superblock);
  slabs_ = std::make_unique<SlabSet>(disk_, superblock_->current().store_uuid,
                                     core_->options.spaces.l3_bytes);
  spaces_ = std::make_unique<SpaceSet>(*slabs_, *superblock_, core_->options.spaces);
  core_->superblock = superblock_.get();
  core_->spaces = spaces_.get();
  works_ = std::make_unique<Works>(*core_);
  verbs_ = std::make_unique<Verbs>(*works_);
  state_ = EngineState::holding;
  return {};
}

Result<void> Engine::cold_start(ColdStartMode mode) {
  HC_CHECK(state_ == EngineState::holding);
  if (mode == ColdStartMode::clear) {
    superblock_->raise_epoch(true);
    HC_TRY_VOID(superblock_->write_blocking_now());
  }
  const IndexIdentity identity{superblock_->current().store_uuid, superblock_->current().epoch};
  auto opened = core_->index.open(identity);
  if (mode == ColdStartMode::clear) {
    // A damaged index is no obstacle to an empty start.
    if (!opened && opened.error().code == Code::corrupt) {
      opened = core_->index.reset(identity);
    }
    HC_TRY(opened);
    begin_serving();
    return {};
  }
  HC_TRY(opened);
  recovery_ = std::make_unique<Recovery>(*works_);
  HC_TRY_VOID(recovery_->start());
  load_progress_ = recovery_->progress();
  state_ = EngineState::loading;
  return {};
}

void Engine::begin_serving() {
  recovery_.reset();
  state_ = EngineState::serving;
}

void Engine::route(const IoEvent& event) {
  switch (io_owner(event.cookie)) {
    case IoOwner::spill: works_->spiller.on_write(event); return;
    case IoOwner::fill: works_->fills.on_read(event); return;
    case IoOwner::zero: works_->forget.on_zero(event); return;
    case IoOwner::commit: works_->commit.on_sync(event); return;
    case IoOwner::superblock: superblock_->on_event(*io_, event); return;
    case IoOwner::scan: recovery_->on_scan(event); return;
  }
  HC_UNREACHABLE();
}

void Engine::turn_superblock() {
  if (superblock_->wants_write() && io_->can_start(IoKind::write_raw)) {
    superblock_->start_write(*io_, io_cookie(IoOwner::superblock, 0));
  }
}

void Engine::turn_loading() {
  if (state_ != EngineState::loading) {
    return;
  }
  const bool loaded = recovery_->turn();
  load_progress_ = recovery_->progress();
  if (loaded) {
    begin_serving();
  }
}

void Engine::turn_works() {
  if (core_->catalog == nullptr) {
    return;
  }
  works_->copies.turn();
  works_->fills.turn();
  works_->forget.turn();
  verbs_->turn();
  works_->spiller.turn();
  if (state_ == EngineState::serving) {
    works_->commit.turn();
  }
}

void Engine::turn(Instant now) {
  begin_turn(now);
  wants_turn_ = false;
  if (state_ == EngineState::closed) {
    return;
  }
  std::uint64_t moves_before = 0;
  do {
    moves_before = core_->moves;
    events_.clear();
    io_->poll(events_);
    for (const IoEvent& event : events_) {
      route(event);
    }
    turn_superblock();
    turn_loading();
    turn_works();
    turn_clear();
  } while (!events_.empty() || core_->moves != moves_before);
}

Instant Engine::next_deadline() const {
  Instant next = core_->now + 1000 * kNsPerMs;
  for (const std::uint32_t op : core_->ops.active()) {
    const Op& at = core_->ops.op(op);
    if (at.deadline < next && (!at.ending || !at.late_sent)) {
      next = at.deadline;
    }
  }
  if (works_ != nullptr && works_->commit.waits_for_time() && works_->commit.next_due() < next) {
    next = works_->commit.next_due();
  }
  return wants_turn_ ? core_->now : next;
}

bool Engine::drained() {
  works_->commit.request_soon();
  return io_->jobs() == 0 && works_->commit.idle() && !works_->commit.has_work() &&
         works_->copies.idle() && works_->spiller.queued() == 0 && superblock_->is_durable() &&
         core_->ops.active().empty();
}

}  // namespace hc
