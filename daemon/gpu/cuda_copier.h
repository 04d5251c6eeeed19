// SPDX-License-Identifier: Apache-2.0
// cuda_copier: the copier for client memory on devices, and how that memory is opened.
//
// Owner: the reactor thread. Lane 2n takes what goes out of device n, lane 2n + 1 what goes in.
// Invariants: a job in a lane holds its mapping, so closing one waits for its jobs by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/gpu/cuda_keeper.h"
#include "shm/gpu/cuda_lane.h"
#include "daemon/os/waitable.h"

namespace hc {

inline constexpr std::uint32_t kCudaDevicesMax = 16;
inline constexpr std::uint32_t kCudaJobsPerLane = 256;

// Of the devices that are in use, for people.
struct CudaDeviceLine {
  std::string uuid;
  std::string name;
  std::string pci;
  bool lost = false;
  std::uint64_t context_bytes = 0;  // device memory that went with our context, about; 0: unknown
  struct Direction {
    std::uint64_t copies = 0;
    std::uint64_t bytes = 0;
    std::uint64_t batches = 0;
    std::uint64_t single = 0;
    std::uint64_t failures = 0;
  };
  Direction out;
  Direction in;
};

class CudaCopier final : public Copier, public DeviceMemory, public Waitable {
 public:
  // Starts no driver: only who exports memory does.
  static Result<std::unique_ptr<CudaCopier>> create(std::string library);
  CudaCopier(EventFd event, std::string library);
  ~CudaCopier() override;

  std::uint32_t lanes() const override { return 2 * kCudaDevicesMax; }
  std::uint32_t lane_of(const CopyJob& job) const override HC_REACTOR;
  Code submit(const CopyJob& job) override HC_REACTOR;
  void poll(std::vector<CopyCompletion>& out) override HC_REACTOR;
  void wait() override HC_REACTOR { news_.wait(); }
  std::uint32_t in_flight() const override HC_REACTOR { return in_flight_; }
  void add_memory(std::span<std::uint8_t> arena, std::uint32_t frame_bytes) override;
  void drop_memory(std::span<std::uint8_t> arena) override;
  int event_fd() const override { return news_.event_fd(); }

  void open(std::uint64_t ticket, DeviceExport wanted) override HC_REACTOR;
  void poll_opened(std::vector<DeviceOpened>& out) override HC_REACTOR;
  void close(MappingId mapping, std::uint64_t ticket) override HC_REACTOR;
  void poll_closed(std::vector<std::uint64_t>& tickets) override HC_REACTOR;

  std::vector<CudaDeviceLine> devices() const HC_REACTOR;
  std::uint32_t open_allocations() const { return keeper_->open_count(); }
  std::uint64_t registered_bytes() const { return keeper_->registry().bytes(); }

 private:
  struct Device {
    std::shared_ptr<CudaDevice> device;
    std::unique_ptr<CudaLane> lanes[2];   // out, in
    std::uint32_t jobs[2] = {0, 0};
  };
  struct Slot {
    bool taken = false;                   // until the device knows nothing of it any more
    bool closing = false;
    std::uint64_t ticket = 0;             // of who waits for its end
    CudaMappingPtr mapping;               // null: being opened, or closed
    std::uint32_t device = 0;             // in devices_
  };
  void collect() HC_REACTOR;
  void take(CudaOpened& opened) HC_REACTOR;
  std::uint32_t place_of(const std::shared_ptr<CudaDevice>& device) HC_REACTOR;

  CudaNewsBox news_;
  CudaNewsSink sink_{news_};
  std::unique_ptr<CudaKeeper> keeper_;    // goes after lanes and mappings, which give back to it
  std::vector<Slot> slots_;               // by mapping
  std::vector<Device> devices_;
  std::vector<std::uint32_t> lane_of_ticket_;  // by the tickets in flight
  std::vector<CopyCompletion> completions_;
  std::vector<DeviceOpened> opened_;
  std::vector<std::uint64_t> closed_;
  std::uint32_t in_flight_ = 0;
};

}  // namespace hc
