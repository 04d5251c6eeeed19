// SPDX-License-Identifier: Apache-2.0
// io_queue: cuts jobs into pieces, submits them in order of urgency, gathers their ends.
#include "daemon/store/io_queue.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "proto/check.h"

namespace hc {

namespace {

constexpr std::uint32_t kJobsMax = kDiskRequestsMax;
constexpr std::uint32_t kPiecesMax = kDiskRequestsMax;
// Reads leave room for the syncs of a group commit and the superblock; writes leave room for reads
// too, so that a read never waits behind spills for a job.
constexpr std::uint32_t kJobsKeptForSyncs = 2 * kPartsMax + 4;
// Syncs leave room for the superblock and for steps that come and go.
constexpr std::uint32_t kJobsKeptForSpace = 2 * kVolumesMax + 4;
constexpr std::uint32_t kJobsKeptForReads = kJobsMax / 4;

}  // namespace

void IoQueue::FreeAligned::operator()(std::uint8_t* memory) const { std::free(memory); }

IoQueue::IoQueue(Disk& disk, std::uint64_t inflight_bytes_max)
    : IoQueue(disk, std::vector<std::uint64_t>(disk.volume_count(), inflight_bytes_max)) {}

IoQueue::IoQueue(Disk& disk, const std::vector<std::uint64_t>& inflight_bytes_max)
    : disk_(disk),
      lanes_(inflight_bytes_max.size()),
      jobs_(kJobsMax),
      piece_bytes_(kPiecesMax),
      piece_job_(kPiecesMax) {
  HC_CHECK(lanes_.size() == disk.volume_count());
  for (std::size_t volume = 0; volume < lanes_.size(); ++volume) {
    lanes_[volume].bytes_max = inflight_bytes_max[volume];
  }
  const std::size_t bytes = std::size_t{kJobsMax} * kBlockBytes;
  headers_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kBlockBytes, bytes)));
  HC_CHECK(headers_ != nullptr);
  std::memset(headers_.get(), 0, bytes);
  for (std::uint32_t i = kJobsMax; i-- > 0;) {
    free_jobs_.push_back(i);
  }
  for (std::uint32_t i = kPiecesMax; i-- > 0;) {
    free_pieces_.push_back(i);
  }
}

bool IoQueue::is_read(IoKind kind) {
  return kind == IoKind::read_blob || kind == IoKind::read_header;
}

bool IoQueue::can_start(IoKind kind) const {
  std::size_t kept = is_read(kind) ? kJobsKeptForSyncs : kJobsKeptForSyncs + kJobsKeptForReads;
  if (kind == IoKind::sync) {
    kept = kJobsKeptForSpace;
  } else if (!moves_bytes(kind) || kind == IoKind::write_raw) {
    kept = 0;
  }
  return free_jobs_.size() > kept;
}

bool IoQueue::has_header(IoKind kind) {
  return moves_bytes(kind) && kind != IoKind::write_raw;
}

bool IoQueue::moves_bytes(IoKind kind) {
  return kind != IoKind::sync && kind != IoKind::allocate && kind != IoKind::punch;
}

std::uint32_t IoQueue::new_job(IoKind kind, const BlobPlace& place, std::uint64_t cookie) {
  HC_CHECK(!free_jobs_.empty());
  HC_CHECK(place.padded_bytes % kBlockBytes == 0);
  HC_CHECK(place.offset_bytes % kBlockBytes == 0);
  const std::uint32_t index = free_jobs_.back();
  free_jobs_.pop_back();
  Job& job = jobs_[index];
  HC_CHECK(!job.in_use);
  job = Job{};
  job.place = place;
  job.cookie = cookie;
  job.kind = kind;
  job.in_use = true;
  job.total_bytes = place.padded_bytes + (has_header(kind) ? kBlockBytes : 0);
  ++jobs_in_use_;
  return index;
}

std::span<std::uint8_t> IoQueue::header_buffer(std::uint32_t job) {
  return {headers_.get() + std::size_t{job} * kBlockBytes, kBlockBytes};
}

void IoQueue::enqueue(std::uint32_t job) {
  const IoKind kind = jobs_[job].kind;
  Lane& lane = lane_of(jobs_[job].place.file);
  (is_read(kind) ? lane.reads : moves_bytes(kind) ? lane.writes : syncs_).push_back(job);
  pump();
}

void IoQueue::start_read(const BlobPlace& place, std::uint64_t cookie) {
  enqueue(new_job(IoKind::read_blob, place, cookie));
}

void IoQueue::start_read_header(FileId file, std::uint64_t offset_bytes, std::uint64_t cookie) {
  enqueue(new_job(IoKind::read_header, BlobPlace{file, offset_bytes, nullptr, 0}, cookie));
}

void IoQueue::start_zero_header(FileId file, std::uint64_t offset_bytes, std::uint64_t cookie) {
  const std::uint32_t job =
      new_job(IoKind::zero_header, BlobPlace{file, offset_bytes, nullptr, 0}, cookie);
  std::memset(header_buffer(job).data(), 0, kBlockBytes);
  enqueue(job);
}

void IoQueue::start_write_raw(const BlobPlace& place, std::uint64_t cookie) {
  enqueue(new_job(IoKind::write_raw, place, cookie));
}

void IoQueue::start_sync(FileId file, std::uint64_t cookie) {
  enqueue(new_job(IoKind::sync, BlobPlace{file, 0, nullptr, 0}, cookie));
}

void IoQueue::start_space(IoKind kind, const FileRange& range, std::uint64_t cookie) {
  HC_CHECK(kind == IoKind::allocate || kind == IoKind::punch);
  HC_CHECK(range.length_bytes > 0);
  const std::uint32_t job =
      new_job(kind, BlobPlace{range.file, range.offset_bytes, nullptr, 0}, cookie);
  jobs_[job].length_bytes = range.length_bytes;
  enqueue(job);
}

// A sync covers only writes that have completed, so it needs no order against the queues.
void IoQueue::pump() {
  pump(syncs_);
  for (Lane& lane : lanes_) {
    pump(lane.reads);
  }
  for (Lane& lane : lanes_) {
    pump(lane.writes);
  }
}

void IoQueue::pump(std::deque<std::uint32_t>& queue) {
  while (!queue.empty()) {
    if (!submit_piece(queue.front())) {
      return;
    }
    const Job& job = jobs_[queue.front()];
    if (job.next_byte >= job.total_bytes) {
      queue.pop_front();
    }
  }
}

// Submits the next piece of the job; false when it has to wait.
bool IoQueue::submit_piece(std::uint32_t index) {
  Job& job = jobs_[index];
  const std::uint64_t left = job.total_bytes - job.next_byte;
  const std::uint64_t bytes = std::min<std::uint64_t>(left, kIoPieceBytes);
  Lane& lane = lane_of(job.place.file);
  const bool too_much =
      lane.bytes_in_flight > 0 && lane.bytes_in_flight + bytes > lane.bytes_max;
  if (free_pieces_.empty() || (too_much && moves_bytes(job.kind))) {
    return false;
  }
  DiskRequest request;
  request.file = job.place.file;
  request.ticket = free_pieces_.back();
  if (!moves_bytes(job.kind)) {
    request.op = job.kind == IoKind::sync       ? DiskOp::sync
                 : job.kind == IoKind::allocate ? DiskOp::allocate
                                                : DiskOp::punch;
    request.offset_bytes = job.place.offset_bytes;
    request.length_bytes = job.length_bytes;
  } else {
    request.op = is_read(job.kind) ? DiskOp::read : DiskOp::write;
    request.offset_bytes = job.place.offset_bytes + job.next_byte;
    std::uint64_t payload_at = job.next_byte;
    std::uint64_t payload_bytes = bytes;
    std::size_t buffer = 0;
    if (has_header(job.kind) && job.next_byte == 0) {
      request.buffers[buffer++] = {header_buffer(index).data(), kBlockBytes};
      payload_bytes -= kBlockBytes;
    } else if (has_header(job.kind)) {
      payload_at -= kBlockBytes;
    }
    if (payload_bytes > 0) {
      request.buffers[buffer] = {job.place.payload + payload_at,
                                 static_cast<std::uint32_t>(payload_bytes)};
    }
  }
  if (disk_.submit(request) != Code::ok) {
    return false;
  }
  free_pieces_.pop_back();
  piece_job_[request.ticket] = index;
  piece_bytes_[request.ticket] = bytes;
  bytes_in_flight_ += bytes;
  lane.bytes_in_flight += bytes;
  job.next_byte += bytes;
  ++job.pieces;
  return true;
}

void IoQueue::complete_piece(const DiskCompletion& completion, std::vector<IoEvent>& out) {
  const auto piece = static_cast<std::uint32_t>(completion.ticket);
  HC_CHECK(piece < kPiecesMax);
  const std::uint32_t index = piece_job_[piece];
  Job& job = jobs_[index];
  HC_CHECK(job.in_use);
  HC_CHECK(job.pieces > 0);
  HC_CHECK(bytes_in_flight_ >= piece_bytes_[piece]);
  bytes_in_flight_ -= piece_bytes_[piece];
  lane_of(job.place.file).bytes_in_flight -= piece_bytes_[piece];
  free_pieces_.push_back(piece);
  --job.pieces;
  if (completion.code != Code::ok && job.code == Code::ok) {
    job.code = completion.code;
    job.sys_errno = completion.sys_errno;
  }
  if (job.pieces > 0 || job.next_byte < job.total_bytes) {
    return;
  }
  IoEvent event{job.kind, job.code, job.sys_errno, job.cookie, {}};
  if (is_read(job.kind)) {
    event.header_block = header_buffer(index);
  }
  out.push_back(event);
  ended_jobs_.push_back(index);
}

void IoQueue::poll(std::vector<IoEvent>& out) {
  for (const std::uint32_t index : ended_jobs_) {
    jobs_[index].in_use = false;
    --jobs_in_use_;
    free_jobs_.push_back(index);
  }
  ended_jobs_.clear();
  pump();
  completions_.clear();
  disk_.poll(completions_);
  for (const DiskCompletion& completion : completions_) {
    complete_piece(completion, out);
  }
  pump();
}

}  // namespace hc
