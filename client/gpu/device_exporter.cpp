// SPDX-License-Identifier: Apache-2.0
// device_exporter: asks the driver about an address, then for handles.
#include "client/gpu/device_exporter.h"

#include <cstring>
#include <utility>

#include "client/gpu/device_error.h"
#include "proto/check.h"
#include "proto/limits.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// The ordinal of the device that an address is of.
Result<int> ordinal_of(const CudaDriver& driver, std::uint64_t address) {
  unsigned type = 0;
  CuResult result = driver->pointer_attribute(&type, kCuPointerMemoryType, address);
  if (result != kCuSuccess || type != kCuMemoryDevice) {
    return bad_address(address, "must be memory of a device");
  }
  int ordinal = -1;
  result = driver->pointer_attribute(&ordinal, kCuPointerDeviceOrdinal, address);
  if (result != kCuSuccess) {
    return driver.error("cuPointerGetAttribute of the device ordinal", result);
  }
  return ordinal;
}

// The same for a thread that may have no context: any that the process has answers for all its
// devices. Memory of a device has one.
Result<int> find_ordinal(const CudaDriver& driver, std::uint64_t address) {
  for (int ordinal = 0; ordinal < driver.device_count(); ++ordinal) {
    CuDevice device = 0;
    unsigned flags = 0;
    int active = 0;
    if (driver->device_get(&device, ordinal) != kCuSuccess ||
        driver->primary_state(device, &flags, &active) != kCuSuccess || active == 0) {
      continue;
    }
    auto context = PrimaryContext::retain(driver, ordinal);
    HC_TRY(context);
    const CurrentContext current(*context);
    if (current.result() == kCuSuccess) {
      return ordinal_of(driver, address);
    }
  }
  return bad_address(address, "must be memory of a device, and this process uses none");
}

}  // namespace

Result<std::unique_ptr<DeviceExporter>> DeviceExporter::open(std::uint64_t address) {
  const auto driver = CudaDriver::load();
  HC_TRY(driver);
  const auto ordinal = find_ordinal(*driver, address);
  HC_TRY(ordinal);
  CuDevice number = 0;
  CuUuid raw{};
  if (const CuResult result = (*driver)->device_get(&number, *ordinal); result != kCuSuccess) {
    return driver->error("cuDeviceGet", result);
  }
  if (const CuResult result = (*driver)->device_uuid(&raw, number); result != kCuSuccess) {
    return driver->error("cuDeviceGetUuid", result);
  }
  Uuid uuid{};
  static_assert(sizeof raw == sizeof uuid);
  std::memcpy(uuid.data(), &raw, sizeof raw);
  auto device = CudaDevice::open(*driver, uuid);
  HC_TRY(device);
  auto exporter = std::make_unique<DeviceExporter>(std::move(*device), *ordinal);
  int shares_events = 0;
  const CuResult asked = (*driver)->device_attribute(&shares_events, kCuDeviceIpcEvents, number);
  HC_TRY_VOID(exporter->make_events(asked == kCuSuccess && shares_events != 0));
  return exporter;
}

DeviceExporter::DeviceExporter(std::shared_ptr<CudaDevice> device, int ordinal)
    : device_(std::move(device)), ordinal_(ordinal) {}

DeviceExporter::~DeviceExporter() {
  const CurrentContext current(device_->context());
  for (CuEvent event : events_) {
    static_cast<void>(device_->driver()->event_destroy(event));
  }
}

Result<void> DeviceExporter::make_events(bool shared) {
  const CudaDriver& driver = device_->driver();
  const CurrentContext current(device_->context());
  if (current.result() != kCuSuccess) {
    return driver.error("cuCtxPushCurrent", current.result());
  }
  const unsigned flags = kCuEventNoTiming | (shared ? kCuEventInterprocess : 0U);
  for (std::uint32_t slot = 0; slot < kOpSlotsPerSession; ++slot) {
    CuEvent event = nullptr;
    CuResult result = driver->event_create(&event, flags);
    if (result != kCuSuccess) {
      return driver.error("cuEventCreate", result);
    }
    events_.push_back(event);
    if (!shared) {
      continue;
    }
    CuIpcEventHandle handle{};
    result = driver->ipc_get_event(&handle, event);
    if (result != kCuSuccess) {
      return driver.error("cuIpcGetEventHandle", result);
    }
    IpcHandle raw{};
    static_assert(sizeof raw == sizeof handle);
    std::memcpy(raw.data(), &handle, sizeof handle);
    event_handles_.push_back(raw);
  }
  return {};
}

Result<void> DeviceExporter::check_device(const DeviceRange& range) const {
  const auto ordinal = ordinal_of(device_->driver(), range.address);
  HC_TRY(ordinal);
  if (*ordinal != ordinal_) {
    return bad_address(range.address, "is of device " + std::to_string(*ordinal) +
                                          ": must be of device " + std::to_string(ordinal_) +
                                          ", as the client's other regions");
  }
  return {};
}

// The last byte as well as the first: what lies between is the engine's to know.
Result<CudaMappingPtr> DeviceExporter::map_region(const DeviceRange& range) {
  const CurrentContext current(device_->context());
  if (current.result() != kCuSuccess) {
    return device_->driver().error("cuCtxPushCurrent", current.result());
  }
  HC_TRY_VOID(check_device(range));
  HC_TRY_VOID(check_device({range.address + range.size_bytes - 1, 1}));
  return std::make_shared<const CudaMapping>(
      CudaMapping{range.address, range.size_bytes, device_, events_});
}

Result<bool> DeviceExporter::has_handle(const DeviceRange& range) const {
  const CudaDriver& driver = device_->driver();
  int capable = 0;
  const CuResult result = driver->pointer_attribute(&capable, kCuPointerLegacyIpc, range.address);
  if (result != kCuSuccess) {
    return driver.error("cuPointerGetAttribute of IS_LEGACY_CUDA_IPC_CAPABLE", result);
  }
  return capable != 0;
}

Result<ExportedRegion> DeviceExporter::export_allocation(const DeviceRange& range) const {
  const CudaDriver& driver = device_->driver();
  CuAddress base = 0;
  std::size_t bytes = 0;
  CuResult result = driver->mem_range(&base, &bytes, range.address);
  if (result != kCuSuccess) {
    return driver.error("cuMemGetAddressRange", result);
  }
  const std::uint64_t offset = range.address - base;
  if (range.size_bytes == 0 || range.size_bytes > bytes - offset) {
    return make_error(Code::bad_argument,
                      "region.size_bytes = " + std::to_string(range.size_bytes) + ": must be 1.." +
                          std::to_string(bytes - offset) + ", to the end of the allocation");
  }
  ExportedRegion out;
  out.request.export_kind = static_cast<std::uint16_t>(ExportKind::legacy);
  out.request.offset_bytes = offset;
  out.request.allocation_bytes = bytes;
  result = driver->pointer_attribute(&out.request.buffer, kCuPointerBufferId, base);
  if (result != kCuSuccess) {
    return driver.error("cuPointerGetAttribute of BUFFER_ID", result);
  }
  CuIpcMemHandle handle{};
  result = driver->ipc_get_mem(&handle, base);
  if (result != kCuSuccess) {
    return driver.error("cuIpcGetMemHandle", result);
  }
  static_assert(sizeof handle == sizeof out.request.ipc_handle);
  std::memcpy(out.request.ipc_handle.data(), &handle, sizeof handle);
  return out;
}

Result<ExportedRegion> DeviceExporter::export_as_chunks(const DeviceRange& range) const {
  auto exported = export_chunks(device_->driver(), ordinal_, range);
  HC_TRY(exported);
  ExportedRegion out;
  out.request.export_kind = static_cast<std::uint16_t>(ExportKind::vmm);
  out.request.offset_bytes = exported->offset_bytes;
  out.request.allocation_bytes = exported->all_bytes;
  out.request.chunk_count = static_cast<std::uint16_t>(exported->chunks.size());
  out.chunks = std::move(exported->chunks);
  out.fds = std::move(exported->fds);
  return out;
}

Result<ExportedRegion> DeviceExporter::export_region(const DeviceRange& range) {
  const CurrentContext current(device_->context());
  if (current.result() != kCuSuccess) {
    return device_->driver().error("cuCtxPushCurrent", current.result());
  }
  HC_TRY_VOID(check_device(range));
  const auto legacy = has_handle(range);
  HC_TRY(legacy);
  auto out = *legacy ? export_allocation(range) : export_as_chunks(range);
  HC_TRY(out);
  out->request.region_kind = static_cast<std::uint16_t>(RegionKind::cuda);
  out->request.size_bytes = range.size_bytes;
  out->request.device = device_->uuid();
  out->request.registration = ++registrations_;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (device_->driver()->mem_info(&free_bytes, &total_bytes) == kCuSuccess) {
    out->request.device_free_bytes = free_bytes;  // a figure of the daemon's, nothing hangs on it
  }
  return out;
}

Result<void> DeviceExporter::record(std::uint16_t slot, void* stream) {
  HC_CHECK(slot < kOpSlotsPerSession);
  const CudaDriver& driver = device_->driver();
  const CurrentContext current(device_->context());
  if (current.result() != kCuSuccess) {
    return driver.error("cuCtxPushCurrent", current.result());
  }
  const auto queue = static_cast<CuStream>(stream);
  int capturing = kCuCaptureNone;
  CuResult result = driver->stream_is_capturing(queue, &capturing);
  if (result != kCuSuccess) {
    return driver.error("cuStreamIsCapturing of op.stream", result);
  }
  if (capturing != kCuCaptureNone) {
    return make_error(Code::bad_argument, "op.stream: must not be under capture");
  }
  result = driver->event_record(events_[slot], queue);
  HC_FAILPOINT(client_event_recorded);
  return result == kCuSuccess ? Result<void>() : driver.error("cuEventRecord", result);
}

}  // namespace hc
