// SPDX-License-Identifier: Apache-2.0
// copy_desk: the queue in front of the copier.
#include "daemon/engine/copy_desk.h"

#include <algorithm>

#include "daemon/engine/works.h"
#include "proto/check.h"

namespace hc {

CopyDesk::CopyDesk(Works& works) : works_(works), tasks_(kCopyJobsMax) {
  for (std::uint32_t i = kCopyJobsMax; i-- > 0;) {
    free_tasks_.push_back(i);
  }
}

void CopyDesk::copy(std::uint32_t item) {
  const Item& entry = works_.core.ops.item(item);
  ++works_.core.ops.op(entry.op).copies;
  queue_.push_back({item, entry.part});
}

void CopyDesk::sum(PartRef ref) { queue_.push_back({kNone32, ref}); }

void CopyDesk::fill_runs(Task& task, const Queued& queued) {
  task.runs.clear();
  if (queued.item == kNone32) {
    return;
  }
  const Item& item = works_.core.ops.item(queued.item);
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

bool CopyDesk::start(const Queued& queued) {
  if (free_tasks_.empty()) {
    return false;
  }
  Core& core = works_.core;
  const std::uint32_t index = free_tasks_.back();
  Task& task = tasks_[index];
  task.item = queued.item;
  task.part = queued.part;
  task.is_sum = queued.item == kNone32;
  fill_runs(task, queued);
  const Part& part = core.catalog->part(queued.part);
  FramePool& frames = core.frames_of(queued.part);
  const std::uint16_t kind = core.family_of(queued.part).kind_of(
      core.catalog->part_of(queued.part));
  CopyJob job;
  job.kind = task.is_sum ? CopyKind::sum
             : core.ops.item(queued.item).role == ItemRole::filler ? CopyKind::gather
                                                                  : CopyKind::scatter;
  job.frame = frames.payload(job.kind == CopyKind::gather ? core.ops.item(queued.item).frame
                                                          : part.frame);
  job.payload_bytes = core.payload_bytes(queued.part);
  job.padded_bytes = core.family_of(queued.part).arenas->frame_bytes(kind) - kBlockBytes;
  job.runs = task.runs;
  job.ticket = index;
  if (core.copier.submit(job) != Code::ok) {
    return false;
  }
  free_tasks_.pop_back();
  ++running_;
  return true;
}

void CopyDesk::drop_queued(std::uint32_t op) {
  std::vector<std::uint32_t> dropped;
  for (auto at = queue_.begin(); at != queue_.end();) {
    if (at->item != kNone32 && works_.core.ops.item(at->item).op == op) {
      dropped.push_back(at->item);
      at = queue_.erase(at);
    } else {
      ++at;
    }
  }
  for (const std::uint32_t item : dropped) {
    --works_.core.ops.op(op).copies;
    works_.events->copy_done(item, Code::cancelled, 0);
  }
}

void CopyDesk::finish(const CopyCompletion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.ticket);
  HC_CHECK(index < tasks_.size());
  Task& task = tasks_[index];
  HC_CHECK(running_ > 0);
  --running_;
  free_tasks_.push_back(index);
  if (task.is_sum) {
    works_.fills.on_sum(task.part, completion.payload_crc);
    return;
  }
  Op& op = works_.core.ops.op(works_.core.ops.item(task.item).op);
  HC_CHECK(op.copies > 0);
  --op.copies;
  works_.events->copy_done(task.item, completion.code, completion.payload_crc);
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
  while (!queue_.empty() && start(queue_.front())) {
    queue_.pop_front();
  }
  in_turn_ = false;
}

}  // namespace hc
