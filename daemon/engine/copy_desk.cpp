// SPDX-License-Identifier: Apache-2.0
// copy_desk: the queues in front of the copier.
#include "daemon/engine/copy_desk.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/works.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

CopyDesk::CopyDesk(Works& works) : works_(works), queues_(works.core.copier.lanes()) {}

void CopyDesk::copy(std::uint32_t item) {
  const Item& entry = works_.core.ops.item(item);
  Op& op = works_.core.ops.op(entry.op);
  ++op.copies;
  if (works_.core.sessions.find(op.session)->regions[op.request.entry.region].by_rank) {
    works_.ranks.copy(item);
  } else if (op.has_flag(kFlagAwaitEvent) && !op.client_ready && !HC_MUTANT(copies_before_event)) {
    park(item);
  } else {
    enqueue({Step::move, item, entry.part});
  }
}

void CopyDesk::sum_filled(std::uint32_t item) {
  enqueue({Step::sum_filled, item, works_.core.ops.item(item).part});
  HC_FAILPOINT(copy_sum_begun);
}

void CopyDesk::sum(PartRef ref) { enqueue({Step::sum_read, kNone32, ref}); }

// The first of an operation asks; the answer lets all of them go.
void CopyDesk::park(std::uint32_t item) {
  const std::uint32_t index = works_.core.ops.item(item).op;
  Op& op = works_.core.ops.op(index);
  op.parked.push_back(item);
  if (op.awaits_client) {
    return;
  }
  op.awaits_client = true;
  const EngineSession* session = works_.core.sessions.find(op.session);
  HC_CHECK(session != nullptr);
  CopyJob job;
  job.kind = CopyKind::await;
  job.mapping = session->regions[op.request.entry.region].mapping;
  job.to_device = op.verb() == Verb::load;
  job.event = op.request.entry.op_slot;
  job.ticket = take_task();
  Task& task = tasks_[job.ticket];
  task.what = {Step::await, kNone32, {}};
  task.op = index;
  task.use = op.use;
  ++running_;
  HC_CHECK(works_.core.copier.submit(job) == Code::ok);
  HC_FAILPOINT(gpu_await_begun);
}

void CopyDesk::enqueue(const Queued& queued) {
  const std::uint32_t lane = works_.core.copier.lane_of(job_of(queued));
  queues_[lane].push_back(queued);
  ++queued_;
}

std::uint32_t CopyDesk::take_task() {
  if (free_tasks_.empty()) {
    tasks_.emplace_back();
    return static_cast<std::uint32_t>(tasks_.size() - 1);
  }
  const std::uint32_t index = free_tasks_.back();
  free_tasks_.pop_back();
  return index;
}

void CopyDesk::fill_runs(Task& task) {
  task.runs.clear();
  if (task.what.step != Step::move) {
    return;
  }
  const Item& item = works_.core.ops.item(task.what.item);
  const Op& op = works_.core.ops.op(item.op);
  EngineSession* session = works_.core.sessions.find(op.session);
  HC_CHECK(session != nullptr);
  const EngineRegion& region = session->regions[op.request.entry.region];
  HC_CHECK(region.present);
  const std::uint64_t row = op.request.pages[item.page_index].row;
  for (const LayoutRun& run : region.layouts[item.kind].runs) {
    task.runs.push_back(
        {region.base + run.offset_bytes + row * run.stride_bytes, run.length_bytes});
  }
}

// Without runs and ticket.
CopyJob CopyDesk::job_of(const Queued& queued) const {
  Core& core = works_.core;
  CopyJob job;
  FrameId frame = core.catalog->part(queued.part).frame;
  if (queued.step != Step::sum_read) {
    const Item& item = core.ops.item(queued.item);
    const Op& op = core.ops.op(item.op);
    frame = item.role == ItemRole::filler ? item.frame : frame;
    if (queued.step == Step::move) {
      job.kind = item.role == ItemRole::filler ? CopyKind::gather : CopyKind::scatter;
      job.mapping =
          core.sessions.find(op.session)->regions[op.request.entry.region].mapping;
    }
  }
  const std::uint16_t kind =
      core.family_of(queued.part).kind_of(core.catalog->part_of(queued.part));
  job.frame = core.frames_of(queued.part).payload(frame);
  job.payload_bytes = core.payload_bytes(queued.part);
  job.padded_bytes = core.family_of(queued.part).arenas->frame_bytes(kind) - kBlockBytes;
  return job;
}

bool CopyDesk::start(const Queued& queued) {
  CopyJob job = job_of(queued);
  const std::uint32_t index = take_task();
  Task& task = tasks_[index];
  task.what = queued;
  fill_runs(task);
  job.runs = task.runs;
  job.ticket = index;
  if (works_.core.copier.submit(job) != Code::ok) {
    free_tasks_.push_back(index);
    return false;
  }
  ++running_;
  return true;
}

void CopyDesk::drop_queued(std::uint32_t op) {
  std::vector<std::uint32_t> dropped = std::exchange(works_.core.ops.op(op).parked, {});
  for (const std::uint32_t item : works_.ranks.drop_untold(op)) {
    dropped.push_back(item);
  }
  if (HC_MUTANT(rank_frames_dropped)) {
    Op& dropping = works_.core.ops.op(op);
    dropped.insert(dropped.end(), dropping.with_rank.begin(), dropping.with_rank.end());
    dropping.with_rank.clear();
  }
  for (std::deque<Queued>& queue : queues_) {
    for (auto at = queue.begin(); at != queue.end();) {
      if (at->item != kNone32 && works_.core.ops.item(at->item).op == op) {
        dropped.push_back(at->item);
        at = queue.erase(at);
        --queued_;
      } else {
        ++at;
      }
    }
  }
  for (const std::uint32_t item : dropped) {
    --works_.core.ops.op(op).copies;
    works_.events->copy_done(item, Code::cancelled, 0);
  }
}

// The client's work is done, or will never be: its device has failed.
void CopyDesk::finish_await(const Task& task, Code code) {
  Op& op = works_.core.ops.op(task.op);
  if (!op.in_use || op.use != task.use) {
    return;  // it has ended meanwhile
  }
  HC_FAILPOINT(gpu_await_heard);
  op.client_ready = true;
  const std::vector<std::uint32_t> parked = std::exchange(op.parked, {});
  for (const std::uint32_t item : parked) {
    if (code == Code::ok) {
      enqueue({Step::move, item, works_.core.ops.item(item).part});
    } else {
      --op.copies;
      works_.events->copy_done(item, code, 0);
    }
  }
}

void CopyDesk::finish(const CopyCompletion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.ticket);
  HC_CHECK(index < tasks_.size());
  HC_CHECK(running_ > 0);
  --running_;
  free_tasks_.push_back(index);
  const Task& task = tasks_[index];
  const Queued what = task.what;
  if (what.step == Step::await) {
    finish_await(Task{what, task.op, task.use, {}}, completion.code);
    return;
  }
  if (what.step == Step::sum_read) {
    works_.fills.on_sum(what.part, completion.payload_crc);
    return;
  }
  HC_FAILPOINT(copy_heard);
  Op& op = works_.core.ops.op(works_.core.ops.item(what.item).op);
  const bool is_moved = what.step == Step::move && completion.code == Code::ok;
  // Of an operation that is ending nobody will ever see the frame.
  const bool needs_sum = !completion.summed && !op.ending && !HC_MUTANT(filled_not_summed);
  if (is_moved && needs_sum) {
    sum_filled(what.item);
    return;
  }
  HC_CHECK(op.copies > 0);
  --op.copies;
  works_.events->copy_done(what.item, completion.code, completion.payload_crc);
  HC_FAILPOINT(copy_settled);
}

void CopyDesk::turn() {
  if (in_turn_) {
    return;
  }
  in_turn_ = true;
  completions_.clear();
  works_.core.copier.poll(completions_);
  for (const CopyCompletion& completion : completions_) {
    finish(completion);
  }
  for (std::deque<Queued>& queue : queues_) {
    while (!queue.empty() && start(queue.front())) {
      queue.pop_front();
      --queued_;
    }
  }
  works_.ranks.turn();
  in_turn_ = false;
}

}  // namespace hc
