// SPDX-License-Identifier: Apache-2.0
// cuda_lane_issue: batches: what goes into one, and the calls that queue it in the stream.
#include <algorithm>
#include <cstring>
#include <utility>

#include "shm/gpu/cuda_lane.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// A frame's padding belongs to its blob. The device writes the payload only, so this may be done
// before.
void zero_padding(const CopyJob& job) {
  if (job.kind == CopyKind::gather && job.padded_bytes > job.payload_bytes) {
    std::memset(job.frame + job.payload_bytes, 0, job.padded_bytes - job.payload_bytes);
  }
}

}  // namespace

void CudaLane::fill_batch(Batch& batch) {
  pieces_.clear();
  device_at_.clear();
  all_registered_ = true;
  std::uint64_t bytes = 0;
  while (!queue_.empty() && pieces_.size() < kBatchPiecesMax && bytes < kBatchBytesMax) {
    const ActivePtr active = queue_.front();
    if (active->batches == 0) {
      zero_padding(active->job);
    }
    ++active->batches;
    batch.jobs.push_back(active);
    while (!active->cursor.at_end() && pieces_.size() < kBatchPiecesMax &&
           bytes < kBatchBytesMax) {
      const CopyPiece piece = active->cursor.next(kBatchBytesMax - bytes);
      const CudaMapping& mapping = *active->mapping;
      HC_CHECK(piece.offset + piece.size_bytes <= mapping.size_bytes);
      all_registered_ =
          all_registered_ && options_.registry->covers(piece.host, piece.size_bytes);
      bytes += piece.size_bytes;
      if (active->batches > 1 && HC_MUTANT(later_batches_dropped)) {
        continue;
      }
      pieces_.push_back(piece);
      device_at_.push_back(mapping.base + piece.offset);
    }
    if (active->cursor.at_end()) {
      queue_.pop_front();
    }
  }
}

CuResult CudaLane::copy_one(const CopyPiece& piece, CuAddress device_at) {
  const CudaDriver& driver = options_.device->driver();
  return options_.to_device
             ? driver->copy_to_device(device_at, piece.host, piece.size_bytes, stream_)
             : driver->copy_to_host(piece.host, device_at, piece.size_bytes, stream_);
}

// One call for all pieces. Where the driver does not take the host's own address for registered
// memory, it has another one for it.
CuResult CudaLane::copy_batched() {
  const CudaDriver& driver = options_.device->driver();
  sources_.resize(pieces_.size());
  targets_.resize(pieces_.size());
  sizes_.resize(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    CuAddress host = reinterpret_cast<std::uintptr_t>(pieces_[i].host);
    if (!options_.device->takes_host_addresses()) {
      const CuResult result = driver->host_device_pointer(&host, pieces_[i].host, 0);
      if (result != kCuSuccess) {
        return result;
      }
    }
    sources_[i] = options_.to_device ? host : device_at_[i];
    targets_[i] = options_.to_device ? device_at_[i] : host;
    sizes_[i] = pieces_[i].size_bytes;
  }
  CuMemcpyAttributes attributes{};
  attributes.source_order = kCuSourceInStream;
  std::size_t first = 0;
  if (driver->copy_batch_v2 != nullptr) {
    return driver->copy_batch_v2(targets_.data(), sources_.data(), sizes_.data(), pieces_.size(),
                                 &attributes, &first, 1, stream_);
  }
  std::size_t failed_at = 0;
  return driver->copy_batch_v1(targets_.data(), sources_.data(), sizes_.data(), pieces_.size(),
                               &attributes, &first, 1, &failed_at, stream_);
}

// A call that refuses the whole batch has queued nothing that matters: what it may have queued is
// copied once more, from and to the same places.
CuResult CudaLane::copy_pieces() {
  const CudaDriver& driver = options_.device->driver();
  const bool has_batches = driver->copy_batch_v2 != nullptr || driver->copy_batch_v1 != nullptr;
  if (has_batches && all_registered_ && pieces_.size() > 1 &&
      (copy_batched() == kCuSuccess || HC_MUTANT(refused_batch_believed))) {
    return kCuSuccess;
  }
  counters_.single.fetch_add(pieces_.size() > 1 ? 1 : 0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (const CuResult result = copy_one(pieces_[i], device_at_[i]); result != kCuSuccess) {
      return result;
    }
  }
  return kCuSuccess;
}

// A batch of which a call failed is waited for like any other: some of its copies may be queued.
bool CudaLane::issue() {
  if (queue_.empty() || batches_.size() == kBatchesInFlight) {
    return false;
  }
  Batch batch;
  fill_batch(batch);
  const CuResult copied = copy_pieces();
  HC_FAILPOINT(gpu_copies_queued);
  if (copied != kCuSuccess) {
    for (const ActivePtr& active : batch.jobs) {
      active->code = Code::io_error;
    }
  }
  counters_.batches.fetch_add(1, std::memory_order_relaxed);
  HC_CHECK(!spare_events_.empty());
  batch.event = spare_events_.back();
  spare_events_.pop_back();
  const CuResult recorded = options_.device->driver()->event_record(batch.event, stream_);
  batches_.push_back(std::move(batch));
  HC_FAILPOINT(gpu_batch_issued);
  if ((copied != kCuSuccess && lost_by(copied, "a copy")) || recorded == kCuSuccess) {
    return true;
  }
  // Without its event nobody knows when the batch has ended, except by its stream. One that can't
  // say so either is as good as lost.
  CuResult now = kCuNotReady;
  while ((now = options_.device->driver()->stream_query(stream_)) == kCuNotReady) {
    pause();
  }
  if (!lost_by(recorded, "cuEventRecord")) {
    Batch done = std::move(batches_.back());
    batches_.pop_back();
    for (Batch& earlier : std::exchange(batches_, {})) {
      finish_batch(earlier, Code::ok);
    }
    finish_batch(done, Code::io_error);
  }
  return true;
}

}  // namespace hc
