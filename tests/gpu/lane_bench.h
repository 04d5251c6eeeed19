// SPDX-License-Identifier: Apache-2.0
// lane_bench: frames in a memory file, and a lane of the product with who waits for its ends.
//
// Owner thread: the one that made it; a sink hears of ends on the lane's thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_bench.h"
#include "shm/gpu/cuda_lane.h"
#include "shm/memory_file.h"
#include "shm/region.h"

namespace hc::test {

// Memory as the pool has it, zeroed; forked processes share it.
class Frames {
 public:
  explicit Frames(std::uint64_t bytes, bool huge_pages = false) {
    MemoryFileOptions options;
    options.try_huge_pages = huge_pages;
    options.commit_memory = true;
    auto file = MemoryFile::create("hicached-gpu-check", bytes, options);
    HC_CHECK(file);
    file_ = std::make_unique<MemoryFile>(std::move(*file));
    RegionOptions all;
    all.size_bytes = file_->size_bytes();
    all.read_only = false;
    all.keep_from_fork = false;
    auto region = Region::map(file_->fd(), all);
    HC_CHECK(region);
    region_ = std::make_unique<Region>(std::move(*region));
  }

  std::uint8_t* begin() { return region_->writable_bytes().data(); }
  std::span<std::uint8_t> bytes() { return region_->writable_bytes(); }
  bool huge_pages() const { return file_->huge_pages(); }

 private:
  std::unique_ptr<MemoryFile> file_;
  std::unique_ptr<Region> region_;
};

inline bool has_batches(const GpuBench& bench) {
  return bench.driver->copy_batch_v2 != nullptr || bench.driver->copy_batch_v1 != nullptr;
}

// One batch by whichever ABI the driver has; 801 without any.
inline CuResult copy_batch(const GpuBench& bench, std::vector<CuAddress> to,
                           std::vector<CuAddress> from, std::vector<std::size_t> sizes,
                           CuStream stream) {
  const auto& driver = bench.driver;
  CuMemcpyAttributes how = {kCuSourceInStream, {}, {}, 0};
  std::size_t first = 0;
  std::size_t failed = 0;
  if (driver->copy_batch_v2 != nullptr) {
    return driver->copy_batch_v2(to.data(), from.data(), sizes.data(), to.size(), &how, &first, 1,
                                 stream);
  }
  if (driver->copy_batch_v1 != nullptr) {
    return driver->copy_batch_v1(to.data(), from.data(), sizes.data(), to.size(), &how, &first, 1,
                                 &failed, stream);
  }
  return kCuNotSupported;
}

// Counts ends; keeps the worst of them.
class LaneEnds : public CopySink {
 public:
  void copied(const CopyCompletion& done, CudaMappingPtr /*mapping*/) override {
    const std::lock_guard lock(mutex_);
    ++ends_;
    code_ = code_ == Code::ok ? done.code : code_;
    changed_.notify_all();
  }
  void lost(const std::string& line) override {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  // True: so many have ended since the last call, all well.
  bool wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    const bool all = changed_.wait_for(lock, kPatience, [&] { return ends_ >= count; });
    ends_ = 0;
    return all && std::exchange(code_, Code::ok) == Code::ok;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ends_ = 0;
  Code code_ = Code::ok;
};

inline std::shared_ptr<CudaDevice> open_device(const GpuBench& bench) {
  CuUuid raw = {};
  Uuid uuid{};
  HC_CHECK(bench.driver->device_uuid(&raw, 0) == kCuSuccess);
  std::memcpy(uuid.data(), &raw, sizeof raw);
  auto device = CudaDevice::open(bench.driver, uuid);
  HC_CHECK(device);
  return *device;
}

// Both lanes of device 0 over frames that are registered, and one stretch of device memory.
class LaneBench {
 public:
  // frame_bytes: of one job. `memory`: of this process, or opened here.
  LaneBench(const GpuBench& bench, Frames& frames, std::uint64_t frame_bytes)
      : device_(open_device(bench)) {
    HC_CHECK(registry_.add(bench.driver, frames.bytes(), frame_bytes));
    in_ = std::make_unique<CudaLane>(LaneOptions{device_, &registry_, true}, ends_);
    out_ = std::make_unique<CudaLane>(LaneOptions{device_, &registry_, false}, ends_);
  }

  CudaMappingPtr map(CuAddress base, std::uint64_t bytes) const {
    return std::make_shared<const CudaMapping>(CudaMapping{base, bytes, device_, {}});
  }
  CudaLane& lane(bool to_device) { return to_device ? *in_ : *out_; }

  // One copy between runs and a frame. `runs` lives until its end.
  void put(bool to_device, std::uint8_t* frame, std::span<const CopyRun> runs,
           const CudaMappingPtr& mapping) {
    CopyJob job;
    job.kind = to_device ? CopyKind::scatter : CopyKind::gather;
    job.frame = frame;
    for (const CopyRun& run : runs) {
      job.payload_bytes += run.size_bytes;
    }
    job.padded_bytes = job.payload_bytes;
    job.runs = runs;
    job.mapping = 0;
    lane(to_device).put(job, mapping);
  }
  bool wait(std::size_t count) { return ends_.wait(count); }

 private:
  std::shared_ptr<CudaDevice> device_;
  HostRegistry registry_;
  LaneEnds ends_;
  std::unique_ptr<CudaLane> in_;
  std::unique_ptr<CudaLane> out_;
};

}  // namespace hc::test
