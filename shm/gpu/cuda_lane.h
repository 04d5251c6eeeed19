// SPDX-License-Identifier: Apache-2.0
// cuda_lane: one direction of one device: a thread with a stream, which issues copies in batches
// and reports them when the device has done them.
//
// Owner thread: any may put; everything below is the lane's own thread.
// Invariants:
//   - a job is reported only when no copy of it can touch memory any more: its batches' events are
//     reached, or its context is lost
//   - of one event at most one await is kept
//   - jobs are issued in the order in which they came; at most kBatchesInFlight batches are queued
//     in the device, so that the engine's own copies get in between
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "shm/gpu/copy_sink.h"
#include "shm/gpu/cuda_mapping.h"
#include "shm/gpu/host_registry.h"
#include "shm/gpu/job_cursor.h"
#include "proto/thread_roles.h"

namespace hc {

inline constexpr std::size_t kBatchesInFlight = 3;

// Of one lane, since the start; read by any thread.
struct LaneCounters {
  std::atomic<std::uint64_t> copies{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> batches{0};
  std::atomic<std::uint64_t> single{0};     // batches that went piece by piece
  std::atomic<std::uint64_t> failures{0};
};

struct LaneOptions {
  std::shared_ptr<CudaDevice> device;
  const HostRegistry* registry = nullptr;
  bool to_device = false;
};

class CudaLane {
 public:
  CudaLane(const LaneOptions& options, CopySink& sink);
  CudaLane(const CudaLane&) = delete;
  CudaLane& operator=(const CudaLane&) = delete;
  ~CudaLane() { end(); }

  // Waits for the copies that it has; what awaits an event is cancelled. Called once more it does
  // nothing.
  void end();

  void put(const CopyJob& job, CudaMappingPtr mapping);
  // Who awaits an event of the mapping hears `cancelled`.
  void cancel_awaits(const CudaMappingPtr& mapping);

  const CudaDevice& device() const { return *options_.device; }
  const LaneCounters& counters() const { return counters_; }

 private:
  struct Active {
    explicit Active(const CopyJob& of, CudaMappingPtr at)
        : job(of), mapping(std::move(at)), cursor(job) {}
    CopyJob job;
    CudaMappingPtr mapping;
    JobCursor cursor;
    std::uint32_t batches = 0;  // in the device
    Code code = Code::ok;
  };
  using ActivePtr = std::shared_ptr<Active>;
  // Who only names a mapping must not be the last one who holds it.
  using WeakMapping = std::weak_ptr<const CudaMapping>;
  struct Batch {
    CuEvent event = nullptr;
    std::vector<ActivePtr> jobs;  // with a piece in it
  };

  void run() HC_COPIER;
  bool open() HC_COPIER;
  void shut() HC_COPIER;
  bool take_incoming() HC_COPIER;
  void take_await(ActivePtr active) HC_COPIER;
  bool is_idle() const HC_COPIER;
  bool look_at_awaits() HC_COPIER;
  bool look_at_batches() HC_COPIER;
  bool issue() HC_COPIER;
  void fill_batch(Batch& batch) HC_COPIER;
  CuResult copy_pieces() HC_COPIER;
  CuResult copy_batched() HC_COPIER;
  CuResult copy_one(const CopyPiece& piece, CuAddress device_at) HC_COPIER;
  void finish_batch(Batch& batch, Code code) HC_COPIER;
  void finish(Active& active) HC_COPIER;
  bool lost_by(CuResult result, const char* call) HC_COPIER;
  void lose(CuResult result, const char* call) HC_COPIER;
  void fail_all() HC_COPIER;
  void pause() HC_COPIER;

  LaneOptions options_;
  CopySink& sink_;
  LaneCounters counters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ActivePtr> incoming_;           // under the mutex
  std::vector<WeakMapping> cancelled_;        // under the mutex
  bool closing_ = false;                      // under the mutex
  // The lane's thread only.
  CuStream stream_ = nullptr;
  std::vector<CuEvent> spare_events_;
  std::deque<ActivePtr> queue_;               // not issued to their ends
  std::vector<ActivePtr> awaits_;
  std::deque<Batch> batches_;                 // in the order of the stream
  std::vector<CopyPiece> pieces_;             // of the batch that is being filled
  std::vector<CuAddress> device_at_;          // of each piece
  std::vector<CuAddress> sources_;
  std::vector<CuAddress> targets_;
  std::vector<std::size_t> sizes_;
  bool all_registered_ = true;                // the pieces' host memory
  std::uint32_t looks_ = 0;                   // in vain, in a row
  std::thread thread_;
};

}  // namespace hc
