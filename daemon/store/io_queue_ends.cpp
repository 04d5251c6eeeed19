// SPDX-License-Identifier: Apache-2.0
// io_queue_ends: completions, notices of what is overdue, probes, and the events they make.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "daemon/store/io_queue.h"
#include "proto/check.h"

namespace hc {

void IoQueue::complete_piece(const DiskCompletion& completion) {
  HC_CHECK(completion.ticket < pieces_.size());
  const Piece piece = pieces_[completion.ticket];
  Job& job = jobs_[piece.job];
  Lane& lane = lane_of(job);
  HC_CHECK(job.in_use);
  HC_CHECK(job.pieces > 0);
  HC_CHECK(lane.bytes_in_flight >= piece.bytes);
  lane.bytes_in_flight -= piece.bytes;
  lane.free_pieces.push_back(static_cast<std::uint32_t>(completion.ticket));
  --job.pieces;
  if (!job.probe && !job.trial) {
    lane.health.note(direction_of(job.kind), completion.code, completion.sys_errno, now_);
  }
  if (completion.code != Code::ok && job.code == Code::ok) {
    job.code = completion.code;
    job.sys_errno = completion.sys_errno;
    job.volume_fault = !lane.health.blames_place(direction_of(job.kind));
  }
  if (job.pieces == 0 && job.next_byte >= job.total_bytes) {
    finished_.push_back(piece.job);
  }
}

bool IoQueue::is_over(const Watch& watch) const {
  const Job& job = jobs_[watch.job];
  return !job.in_use || job.use != watch.use ||
         (job.pieces == 0 && job.next_byte >= job.total_bytes);
}

// A job that hangs at the front keeps those behind it, ended or not: they are cleared out.
void IoQueue::watch(Lane& lane, std::uint32_t index) {
  constexpr std::size_t kWatchedMax = std::size_t{4} * kDiskRequestsMax;
  if (lane.watched.size() >= kWatchedMax) {
    std::erase_if(lane.watched, [this](const Watch& one) { return is_over(one); });
  }
  lane.watched.push_back({index, jobs_[index].use, now_});
}

void IoQueue::tell_overdue(Lane& lane, std::vector<IoEvent>& out) {
  const std::int64_t timeout_ns = std::int64_t{options_.timeout_ms} * kNsPerMs;
  while (!lane.watched.empty()) {
    const Watch watch = lane.watched.front();
    const bool over = is_over(watch);
    if (!over && now_ - watch.since < timeout_ns) {
      return;
    }
    lane.watched.pop_front();
    if (over) {
      continue;
    }
    Job& job = jobs_[watch.job];
    job.overdue = true;
    ++overdue_;
    ++unanswered_;
    lane.health.note_overdue(direction_of(job.kind), options_.timeout_ms, now_);
    if (!job.probe) {
      IoEvent notice{job.kind, Code::timed_out, ETIMEDOUT, job.cookie};
      notice.overdue = true;
      out.push_back(notice);
    }
  }
}

// One block is read, or written with zeros, of a file that holds nothing.
void IoQueue::probe(std::uint16_t volume) {
  Lane& lane = lanes_[volume];
  if (!lane.probe_file || lane.free_jobs.empty() || !lane.health.probe_due(now_)) {
    return;
  }
  const bool read = lane.health.probe_direction() == IoDirection::read;
  const std::uint32_t index = new_job(read ? IoKind::read_header : IoKind::zero_header,
                                      BlobPlace{*lane.probe_file}, 0);
  jobs_[index].probe = true;
  --jobs_in_use_;
  if (!read) {
    std::memset(header_block(index).data(), 0, kBlockBytes);
  }
  lane.health.probe_started();
  (read ? lane.reads : lane.writes).push_front(index);
}

Instant IoQueue::next_due() const {
  constexpr Instant kNever{INT64_MAX};
  const std::int64_t timeout_ns = std::int64_t{options_.timeout_ms} * kNsPerMs;
  Instant next = kNever;
  for (const Lane& lane : lanes_) {
    if (!lane.watched.empty()) {
      next = std::min(next, lane.watched.front().since + timeout_ns);
    }
    const bool probes = lane.probe_file && !lane.free_jobs.empty();
    if (probes && lane.health.next_probe() > now_) {
      next = std::min(next, lane.health.next_probe());
    }
  }
  return next < now_ ? kNever : next;
}

void IoQueue::free_ended() {
  for (const std::uint32_t index : ended_jobs_) {
    Job& job = jobs_[index];
    job.in_use = false;
    jobs_in_use_ -= job.probe ? 0U : 1U;
    lane_of(job).free_jobs.push_back(index);
  }
  ended_jobs_.clear();
}

void IoQueue::emit_finished(std::vector<IoEvent>& out) {
  for (const std::uint32_t index : std::exchange(finished_, {})) {
    Job& job = jobs_[index];
    ended_jobs_.push_back(index);
    overdue_ -= job.overdue ? 1U : 0U;
    if (job.probe) {
      lane_of(job).health.probe_ended(direction_of(job.kind), job.code, now_);
      continue;
    }
    if (job.trial) {
      lane_of(job).health.probe_ended(direction_of(job.kind), job.code, now_);
      job.not_tried = job.code != Code::ok;  // it speaks of the volume, not of the slot
    }
    unanswered_ += job.not_tried || job.volume_fault ? 1U : 0U;
    IoEvent event{job.kind, job.code, job.sys_errno, job.cookie};
    event.was_overdue = job.overdue;
    event.not_tried = job.not_tried;
    event.volume_fault = job.volume_fault;
    if (is_read(job.kind)) {
      event.header_block = header_block(index);
    }
    out.push_back(event);
  }
}

void IoQueue::poll(Instant now, std::vector<IoEvent>& out) {
  if (now_ == Instant{}) {  // what was started before the first poll is not late
    for (Lane& lane : lanes_) {
      for (Watch& watch : lane.watched) {
        watch.since = now;
      }
    }
  }
  now_ = now;
  free_ended();
  for (std::uint16_t volume = 0; volume < lanes_.size(); ++volume) {
    probe(volume);
  }
  pump();
  completions_.clear();
  disk_.poll(completions_);
  for (const DiskCompletion& completion : completions_) {
    complete_piece(completion);
  }
  for (Lane& lane : lanes_) {
    tell_overdue(lane, out);
  }
  pump();
  emit_finished(out);
}

}  // namespace hc
