// SPDX-License-Identifier: Apache-2.0
// device_exporter: what a rank gives to the daemon of one device: regions of allocations, and
// events that say when its own work is done.
//
// Owner thread: any, one at a time; `record` may run beside the others. Invariants: an event is
// recorded for one operation at a time, the one that has its slot.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/gpu/chunk_export.h"
#include "proto/handshake.h"
#include "proto/result.h"
#include "shm/gpu/cuda_mapping.h"

namespace hc {

// What the daemon needs of a region: the fields of a request that name it and, of memory of
// cuMemCreate, its chunks.
struct ExportedRegion {
  RegionRequest request{};
  std::vector<RegionChunk> chunks;
  std::vector<UniqueFd> fds;  // one of each chunk
};

class DeviceExporter {
 public:
  // For the device that this address is of. Errors: unsupported ("no GPU: ..."), bad_argument (not
  // memory of a device), io_error.
  static Result<std::unique_ptr<DeviceExporter>> open(std::uint64_t address);
  DeviceExporter(std::shared_ptr<CudaDevice> device, int ordinal);
  DeviceExporter(const DeviceExporter&) = delete;
  DeviceExporter& operator=(const DeviceExporter&) = delete;
  ~DeviceExporter();

  // By the handle of its allocation if there is one, else by descriptors of its chunks. Errors:
  // bad_argument (another device, not inside one allocation), unsupported (neither way is open),
  // io_error.
  Result<ExportedRegion> export_region(const DeviceRange& range);
  // For copies of our own: any memory that is of this device. Errors: bad_argument, io_error.
  Result<CudaMappingPtr> map_region(const DeviceRange& range);
  const std::shared_ptr<CudaDevice>& device() const { return device_; }

  // One for each operation slot; none where the device can't share events.
  const std::vector<IpcHandle>& event_handles() const { return event_handles_; }

  // The event of the slot is reached when what is in the stream now is done. Errors: bad_argument
  // (the stream is being captured), io_error.
  Result<void> record(std::uint16_t slot, void* stream);

 private:
  Result<void> make_events(bool shared);
  Result<void> check_device(const DeviceRange& range) const;
  Result<bool> has_handle(const DeviceRange& range) const;
  Result<ExportedRegion> export_allocation(const DeviceRange& range) const;
  Result<ExportedRegion> export_as_chunks(const DeviceRange& range) const;

  std::shared_ptr<CudaDevice> device_;
  int ordinal_;
  std::vector<CuEvent> events_;
  std::vector<IpcHandle> event_handles_;
  std::uint32_t registrations_ = 0;
};

}  // namespace hc
