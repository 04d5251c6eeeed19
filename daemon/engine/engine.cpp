// SPDX-License-Identifier: Apache-2.0
// engine: runs the turn, routes completions.
#include "daemon/engine/engine.h"

#include <algorithm>

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

Engine::Engine(Disk& disk, Index& index, Copier& copier, CompletionSink& sink,
               const EngineOptions& options)
    : disk_(disk),
      io_(std::make_unique<IoQueue>(
          disk, IoQueueOptions{options.io_inflight_bytes, options.io_timeout_ms,
                               options.volume_inflight_bytes})),
      core_(std::make_unique<Core>(*io_, index, copier, sink, options)) {
  watch_arenas();
}

Engine::~Engine() = default;

void Engine::route(const IoEvent& event) {
  switch (io_owner(event.cookie)) {
    case IoOwner::spill: works_->spiller.on_write(event); return;
    case IoOwner::fill: works_->fills.on_read(event); return;
    case IoOwner::zero: works_->forget.on_zero(event); return;
    case IoOwner::commit: works_->commit.on_sync(event); return;
    case IoOwner::superblock: on_superblock(event); return;
    case IoOwner::scan: on_scan(event); return;
    case IoOwner::note: works_->commit.on_note(event); return;
    case IoOwner::rebuild: rebuild_->on_read(event); return;
    case IoOwner::space: works_->steps.on_event(event); return;
  }
  HC_UNREACHABLE();
}

// While the engine holds, a write would meet the blocking ones of the cold start.
void Engine::turn_superblock() {
  if (state_ != EngineState::holding && superblock_->wants_write(core_->now) &&
      io_->can_start(IoKind::write_raw, 0)) {
    superblock_->start_write(*io_, io_cookie(IoOwner::superblock, 0));
  }
}

void Engine::on_superblock(const IoEvent& event) {
  if (event.overdue) {
    superblock_->note_overdue();
    works_->commit.tell_stalled();
    return;  // the write goes on, and everything that must wait for it
  }
  const auto interval_ns = std::int64_t{core_->options.commit_interval_ms} * kNsPerMs;
  core_->counters.superblock_failures += event.code == Code::ok ? 0U : 1U;
  superblock_->on_event(*io_, event, core_->now + interval_ns);
}

void Engine::turn_loading() {
  if (state_ != EngineState::loading || stopping_) {
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
    if (state_ == EngineState::serving) {
      works_->commit.turn();  // rows of a store that serves no family are erased all the same
    }
    return;
  }
  works_->copies.turn();
  works_->fills.turn();
  turn_scan_behind();
  turn_rebuild();
  works_->forget.turn();
  verbs_->turn();
  works_->spiller.turn();
  works_->steps.turn();
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
  if (rebuild_ != nullptr) {
    rebuild_->begin_engine_turn();
  }
  std::uint64_t moves_before = 0;
  do {
    moves_before = core_->progress();
    events_.clear();
    io_->poll(now, events_);
    count_io();
    for (const IoEvent& event : events_) {
      route(event);
    }
    turn_superblock();
    turn_loading();
    turn_works();
    turn_clear();
  } while (!events_.empty() || core_->progress() != moves_before);
}

Instant Engine::next_deadline() const {
  Instant next = core_->now + 1000 * kNsPerMs;
  for (const std::uint32_t op : core_->ops.active()) {
    const Op& at = core_->ops.op(op);
    if (at.deadline < next && (!at.ending || !at.late_sent)) {
      next = at.deadline;
    }
  }
  // While it loads, what recovery has queued waits for the end of the load, not for the time.
  if (state_ == EngineState::serving && works_->commit.waits_for_time()) {
    next = std::min(next, works_->commit.next_due());
  }
  const bool retries = superblock_ != nullptr && superblock_->write_waits();
  if (retries && core_->now < superblock_->retry_at()) {
    next = std::min(next, superblock_->retry_at());
  }
  next = std::min({next, io_->next_due(), verbs_ ? verbs_->next_retry() : next});
  return wants_turn_ || io_->ready() ? core_->now : next;
}

bool Engine::drained() {
  stopping_ = true;
  HC_FAILPOINT(stop_asked);
  if (state_ != EngineState::serving) {
    return io_->jobs() == 0;  // a load ends here; only what it reads now comes in
  }
  wants_turn_ = works_->admission.spill_for_stop() || wants_turn_;
  works_->commit.request_soon();
  // A dead index takes nothing any more: there is nothing to wait for.
  const bool committed =
      works_->commit.idle() && (!works_->commit.has_work() || works_->commit.index_dead());
  return io_->jobs() == 0 && committed &&
         works_->copies.idle() && works_->spiller.queued() == 0 && superblock_->is_durable() &&
         core_->ops.active().empty();
}

}  // namespace hc
