// SPDX-License-Identifier: Apache-2.0
// io_queue: cuts jobs into pieces, submits them in order of urgency, gathers their ends.
#include "daemon/store/io_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

namespace {

// Of each volume.
constexpr std::uint32_t kJobsMax = kDiskRequestsMax;
constexpr std::uint32_t kPiecesMax = kDiskRequestsMax;
// Reads leave room for the syncs of a group commit and the superblock; writes leave room for reads
// too, so that a read never waits behind spills for a job. One job is left for the probe.
constexpr std::uint32_t kJobsKeptForProbe = 1;
constexpr std::uint32_t kJobsKeptForSyncs = 2 * kPartsMax + 4;
// Syncs leave room for the superblock and for the step that comes and the one that goes.
constexpr std::uint32_t kJobsKeptForSpace = kJobsKeptForProbe + 2 + 4;
constexpr std::uint32_t kJobsKeptForReads = kJobsMax / 4;
constexpr const char* kProbeFile = "health";

}  // namespace

void IoQueue::FreeAligned::operator()(std::uint8_t* memory) const { std::free(memory); }

IoQueue::IoQueue(Disk& disk, const IoQueueOptions& options) : disk_(disk), options_(options) {
  const std::uint32_t volumes = disk.volume_count();
  const std::vector<std::uint64_t>& bounds = options_.inflight_bytes;
  HC_CHECK(bounds.empty() || bounds.size() == volumes);
  jobs_.resize(std::size_t{volumes} * kJobsMax);
  pieces_.resize(std::size_t{volumes} * kPiecesMax);
  const std::size_t bytes = jobs_.size() * kBlockBytes;
  headers_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kBlockBytes, bytes)));
  HC_CHECK(headers_ != nullptr);
  std::memset(headers_.get(), 0, bytes);
  disk_.add_memory({headers_.get(), bytes});
  lanes_.reserve(volumes);
  for (std::uint16_t volume = 0; volume < volumes; ++volume) {
    Lane& lane = lanes_.emplace_back(disk.volume_name(volume));
    lane.bytes_max = bounds.empty() ? options_.inflight_bytes_max : bounds[volume];
    for (std::uint32_t i = kJobsMax; i-- > 0;) {
      lane.free_jobs.push_back(volume * kJobsMax + i);
    }
    for (std::uint32_t i = kPiecesMax; i-- > 0;) {
      lane.free_pieces.push_back(volume * kPiecesMax + i);
    }
  }
}

IoQueue::~IoQueue() { disk_.drop_memory({headers_.get(), jobs_.size() * kBlockBytes}); }

void IoQueue::open_probes() {
  for (std::uint16_t volume = 0; volume < lanes_.size(); ++volume) {
    auto file = disk_.open({kProbeFile, kBlockBytes, true, false, volume});
    if (file) {
      lanes_[volume].probe_file = *file;
    } else {
      log_warn("volume.no_probe", {{"reason", file.error().message()}});
    }
  }
}

bool IoQueue::is_read(IoKind kind) {
  return kind == IoKind::read_blob || kind == IoKind::read_header;
}

IoDirection IoQueue::direction_of(IoKind kind) {
  return is_read(kind) ? IoDirection::read : IoDirection::write;
}

bool IoQueue::can_start(IoKind kind, std::uint16_t volume) const {
  std::size_t kept = is_read(kind) ? kJobsKeptForSyncs : kJobsKeptForSyncs + kJobsKeptForReads;
  if (kind == IoKind::sync) {
    kept = kJobsKeptForSpace;
  } else if (!moves_bytes(kind) || kind == IoKind::write_raw) {
    kept = kJobsKeptForProbe;
  }
  return lanes_[volume].free_jobs.size() > kept;
}

// Without a file to probe it, a failed volume is tried with a request now and then.
bool IoQueue::refuses(IoKind kind, std::uint16_t volume) const {
  const Lane& lane = lanes_[volume];
  const IoDirection direction = direction_of(kind);
  const bool may_try = !lane.probe_file && direction == lane.health.probe_direction() &&
                       lane.health.probe_due(now_);
  return lane.health.failed(direction) && !may_try;
}

bool IoQueue::has_header(IoKind kind) {
  return moves_bytes(kind) && kind != IoKind::write_raw;
}

bool IoQueue::moves_bytes(IoKind kind) {
  return kind != IoKind::sync && kind != IoKind::allocate && kind != IoKind::punch;
}

std::uint32_t IoQueue::new_job(IoKind kind, const BlobPlace& place, std::uint64_t cookie) {
  HC_CHECK(volume_of(place.file) < lanes_.size());
  Lane& lane = lanes_[volume_of(place.file)];
  HC_CHECK(!lane.free_jobs.empty());
  HC_CHECK(place.padded_bytes % kBlockBytes == 0);
  HC_CHECK(place.offset_bytes % kBlockBytes == 0);
  const std::uint32_t index = lane.free_jobs.back();
  lane.free_jobs.pop_back();
  Job& job = jobs_[index];
  HC_CHECK(!job.in_use);
  const std::uint64_t use = job.use + 1;
  job = Job{};
  job.place = place;
  job.cookie = cookie;
  job.kind = kind;
  job.use = use;
  job.in_use = true;
  job.total_bytes = place.padded_bytes + (has_header(kind) ? kBlockBytes : 0);
  if (job.place.header == nullptr) {
    job.place.header = headers_.get() + std::size_t{index} * kBlockBytes;
  }
  ++jobs_in_use_;
  return index;
}

std::span<std::uint8_t> IoQueue::header_block(std::uint32_t job) {
  return {jobs_[job].place.header, kBlockBytes};
}

void IoQueue::enqueue(std::uint32_t index) {
  const IoKind kind = jobs_[index].kind;
  Lane& lane = lane_of(jobs_[index]);
  (is_read(kind) ? lane.reads : moves_bytes(kind) ? lane.writes : lane.syncs).push_back(index);
  pump();
}

void IoQueue::start_read(const BlobPlace& place, std::uint64_t cookie) {
  enqueue(new_job(IoKind::read_blob, place, cookie));
}

void IoQueue::start_read_header(FileId file, std::uint64_t offset_bytes, std::uint64_t cookie) {
  enqueue(new_job(IoKind::read_header, BlobPlace{file, offset_bytes}, cookie));
}

void IoQueue::start_zero_header(FileId file, std::uint64_t offset_bytes, std::uint64_t cookie) {
  const std::uint32_t job = new_job(IoKind::zero_header, BlobPlace{file, offset_bytes}, cookie);
  std::memset(header_block(job).data(), 0, kBlockBytes);
  enqueue(job);
}

void IoQueue::start_write_raw(const BlobPlace& place, std::uint64_t cookie) {
  enqueue(new_job(IoKind::write_raw, place, cookie));
}

void IoQueue::start_sync(FileId file, std::uint64_t cookie) {
  enqueue(new_job(IoKind::sync, BlobPlace{file}, cookie));
}

void IoQueue::start_space(IoKind kind, const FileRange& range, std::uint64_t cookie) {
  HC_CHECK(kind == IoKind::allocate || kind == IoKind::punch);
  HC_CHECK(range.length_bytes > 0);
  const std::uint32_t job = new_job(kind, BlobPlace{range.file, range.offset_bytes}, cookie);
  jobs_[job].length_bytes = range.length_bytes;
  enqueue(job);
}

// A sync covers only writes that have completed, so it needs no order against the queues.
void IoQueue::pump() {
  for (Lane& lane : lanes_) {
    pump(lane.syncs);
    pump(lane.reads);
    pump(lane.writes);
  }
}

void IoQueue::pump(std::deque<std::uint32_t>& queue) {
  while (!queue.empty()) {
    const std::uint32_t index = queue.front();
    if (refuse(index)) {
      queue.pop_front();
      continue;
    }
    if (!submit_piece(index)) {
      return;
    }
    const Job& job = jobs_[index];
    if (job.next_byte >= job.total_bytes) {
      queue.pop_front();
    }
  }
}

// What is left of a job whose volume has failed, or of which a piece has failed, is not submitted:
// the job ends with its last piece.
bool IoQueue::refuse(std::uint32_t index) {
  Job& job = jobs_[index];
  VolumeHealth& health = lane_of(job).health;
  const bool well = !health.failed(direction_of(job.kind));
  if (job.code == Code::ok && (job.probe || job.trial || well)) {
    return false;
  }
  if (job.code == Code::ok && job.next_byte == 0 &&
      !refuses(job.kind, volume_of(job.place.file))) {
    job.trial = true;
    health.probe_started();
    return false;
  }
  if (job.code == Code::ok) {
    job.code = Code::io_error;
    job.sys_errno = EIO;
    job.not_tried = true;
  }
  job.next_byte = job.total_bytes;
  if (job.pieces == 0) {
    finished_.push_back(index);
  }
  return true;
}

// The request for the next `bytes` bytes of the job.
DiskRequest IoQueue::request_of(std::uint32_t index, std::uint64_t bytes) {
  const Job& job = jobs_[index];
  DiskRequest request;
  request.file = job.place.file;
  if (job.kind == IoKind::sync) {
    request.op = DiskOp::sync;
    return request;
  }
  if (!moves_bytes(job.kind)) {
    request.op = job.kind == IoKind::punch ? DiskOp::punch : DiskOp::allocate;
    request.offset_bytes = job.place.offset_bytes;
    request.length_bytes = job.length_bytes;
    return request;
  }
  request.op = is_read(job.kind) ? DiskOp::read : DiskOp::write;
  request.offset_bytes = job.place.offset_bytes + job.next_byte;
  const auto size = static_cast<std::uint32_t>(bytes);
  const bool apart = job.place.header + kBlockBytes != job.place.payload;
  if (!has_header(job.kind)) {
    request.buffers[0] = {job.place.payload + job.next_byte, size};
  } else if (!apart) {
    request.buffers[0] = {job.place.header + job.next_byte, size};
  } else if (job.next_byte > 0) {
    request.buffers[0] = {job.place.payload + (job.next_byte - kBlockBytes), size};
  } else {
    request.buffers[0] = {job.place.header, kBlockBytes};
    request.buffers[1] = {job.place.payload, size - kBlockBytes};
  }
  return request;
}

// Submits the next piece of the job; false when it has to wait.
bool IoQueue::submit_piece(std::uint32_t index) {
  Job& job = jobs_[index];
  Lane& lane = lane_of(job);
  const std::uint64_t left = job.total_bytes - job.next_byte;
  const std::uint64_t bytes = std::min<std::uint64_t>(left, kIoPieceBytes);
  const bool too_much =
      lane.bytes_in_flight > 0 && lane.bytes_in_flight + bytes > lane.bytes_max;
  if (lane.free_pieces.empty() || (too_much && moves_bytes(job.kind) && !job.probe)) {
    return false;
  }
  DiskRequest request = request_of(index, bytes);
  request.ticket = lane.free_pieces.back();
  if (disk_.submit(request) != Code::ok) {
    return false;
  }
  lane.free_pieces.pop_back();
  pieces_[request.ticket] = {bytes, index};
  lane.bytes_in_flight += bytes;
  if (job.next_byte == 0 && job.pieces == 0) {
    watch(lane, index);
  }
  job.next_byte += bytes;
  ++job.pieces;
  return true;
}

}  // namespace hc
