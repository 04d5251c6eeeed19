// SPDX-License-Identifier: Apache-2.0
// copier_stage: a copier of a rank over the stand-in driver: rows in device memory, frames in host
// memory, and what it has said so far.
//
// Owner thread: the one that made it; in a forked process (support/doubles.h).
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/gpu/device_exporter.h"
#include "client/gpu/rank_copier.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc::test {

struct CopierStage {
  static constexpr std::uint32_t kRows = 8;
  static constexpr std::uint64_t kPayload = 5000;
  static constexpr std::uint64_t kFrame = 8192;
  struct Done {
    std::uint64_t name;
    Code code;
  };

  explicit CopierStage(const std::string& plan)
      : bench(FakeBench::make(plan)),
        memory(bench->new_memory(kRows * kPayload)),
        device(device_of(memory)),
        frames(static_cast<std::uint8_t*>(std::aligned_alloc(4096, kRows * kFrame))) {
    CudaMapping made;
    made.base = memory;
    made.size_bytes = kRows * kPayload;
    made.device = device;
    for (int slot = 0; slot < 4; ++slot) {
      made.events.push_back(bench->new_event());
    }
    mapping = std::make_shared<const CudaMapping>(std::move(made));
    std::memset(frames, 0x33, kRows * kFrame);
    copier = std::make_unique<RankCopier>(
        device, [this](std::uint64_t name, Code code) { note(name, code); });
  }
  CopierStage(const CopierStage&) = delete;
  CopierStage& operator=(const CopierStage&) = delete;
  ~CopierStage() {
    copier.reset();
    std::free(frames);
  }

  // The stand-in is loaded, so it is what this finds by the name of the library.
  static std::shared_ptr<CudaDevice> device_of(CuAddress address) {
    const auto exporter = DeviceExporter::open(address);
    HC_CHECK(exporter);
    return (*exporter)->device();
  }

  std::uint8_t* frame(std::uint32_t row) const { return frames + row * kFrame; }
  // Of rows [first, first + count): each in two runs that lie apart.
  RankBatch batch(std::uint64_t name, bool to_device, std::uint32_t first, std::uint32_t count) {
    RankBatch made;
    made.name = name;
    made.to_device = to_device;
    made.mapping = mapping;
    for (std::uint32_t row = first; row < first + count; ++row) {
      RankCopy copy;
      copy.frame = frame(row);
      copy.payload_bytes = kPayload;
      copy.runs = {{row * std::uint64_t{2000}, 2000},
                   {kRows * std::uint64_t{2000} + row * std::uint64_t{3000}, 3000}};
      made.copies.push_back(std::move(copy));
    }
    return made;
  }
  // Each byte of the device's rows; the same for every row.
  void fill_device(unsigned char value) const {
    HC_CHECK(bench->fill(memory, value, kRows * kPayload));
  }
  bool device_holds(std::uint32_t row, int value) const {
    const CuAddress second = memory + kRows * std::uint64_t{2000} + row * std::uint64_t{3000};
    for (const CuAddress at : {memory + row * std::uint64_t{2000},
                               memory + row * std::uint64_t{2000} + 1999, second, second + 2999}) {
      if (bench->byte_at(at) != value) {
        return false;
      }
    }
    return true;
  }
  bool frame_holds(std::uint32_t row, std::uint8_t value) const {
    const std::uint8_t* const at = frame(row);
    for (std::uint64_t i = 0; i < kPayload; ++i) {
      if (at[i] != value) {
        return false;
      }
    }
    return at[kPayload] == 0x33;
  }

  void note(std::uint64_t name, Code code) {
    {
      const std::lock_guard lock(mutex);
      done.push_back({name, code});
    }
    changed.notify_all();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return done.size();
  }
  void await(std::size_t wanted) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done.size() >= wanted; });
  }
  // What was said of it; not_ready: nothing.
  Code outcome(std::uint64_t name) {
    const std::lock_guard lock(mutex);
    for (const Done& at : done) {
      if (at.name == name) {
        return at.code;
      }
    }
    return Code::not_ready;
  }

  std::unique_ptr<FakeBench> bench;
  CuAddress memory;
  std::shared_ptr<CudaDevice> device;
  std::uint8_t* frames;
  CudaMappingPtr mapping;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Done> done;  // in the order in which it was said
  std::unique_ptr<RankCopier> copier;
};

// Readable once somebody wants to stop.
class StopFd {
 public:
  StopFd() : fd_(::eventfd(0, EFD_CLOEXEC)) { HC_CHECK(fd_ >= 0); }
  StopFd(const StopFd&) = delete;
  StopFd& operator=(const StopFd&) = delete;
  ~StopFd() { ::close(fd_); }
  int fd() const { return fd_; }
  void stop() const {
    const std::uint64_t one = 1;
    HC_CHECK(::write(fd_, &one, sizeof one) == sizeof one);
  }

 private:
  int fd_;
};

}  // namespace hc::test
