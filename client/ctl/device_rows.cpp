// SPDX-License-Identifier: Apache-2.0
// device_rows: an allocation, a stream and a pinned mirror.
#include "client/ctl/device_rows.h"

#include <sched.h>

#include <array>
#include <string>
#include <utility>

#include "proto/limits.h"

namespace hc {

namespace {

// Where the rows begin in the allocation: no multiple of a block.
constexpr std::uint64_t kInnerOffset = 3 * 512 + 65536;
constexpr std::size_t kNameBytes = 128;
// Chunks are as small as the device has them, but not more than about so many.
constexpr std::uint64_t kChunksWanted = kChunksPerRegionMax / 2;

}  // namespace

Result<std::unique_ptr<DeviceRows>> DeviceRows::make(std::uint64_t size_bytes,
                                                     std::uint32_t rank, RowsMemory memory) {
  const auto driver = CudaDriver::load();
  HC_TRY(driver);
  const auto count = static_cast<std::uint32_t>(driver->device_count());
  const auto ordinal = static_cast<int>(rank % count);
  auto context = PrimaryContext::retain(*driver, ordinal);
  HC_TRY(context);
  auto rows = std::make_unique<DeviceRows>(std::move(*context));
  HC_TRY_VOID(rows->acquire(size_bytes, memory, ordinal));
  return rows;
}

Result<void> DeviceRows::map_chunks(std::uint64_t size_bytes, RowsMemory memory, int ordinal) {
  const CudaDriver& driver = context_.driver();
  if (driver->vmm_create == nullptr) {
    return make_error(Code::unsupported, "this driver has no cuMemCreate");
  }
  CuMemProperties of{};
  of.type = kCuAllocationPinned;
  of.handle_types = memory == RowsMemory::chunks ? kCuHandlePosixFd : 0;
  of.location = {kCuLocationDevice, ordinal};
  std::size_t unit = 0;
  CuResult result = driver->vmm_granularity(&unit, &of, kCuGranularityMinimum);
  if (result != kCuSuccess) {
    return driver.error("cuMemGetAllocationGranularity", result);
  }
  const std::uint64_t chunk = round_up(size_bytes / kChunksWanted + 1, unit);
  const std::uint64_t all = round_up(size_bytes, chunk);
  result = driver->vmm_reserve(&allocation_, all, 0, 0, 0);
  if (result != kCuSuccess) {
    return driver.error("cuMemAddressReserve", result);
  }
  reserved_bytes_ = all;
  while (mapped_bytes_ < all) {
    CuMemHandle handle = 0;
    result = driver->vmm_create(&handle, chunk, &of, 0);
    if (result != kCuSuccess) {
      return driver.error("cuMemCreate of " + std::to_string(chunk) + " bytes", result);
    }
    result = driver->vmm_map(allocation_ + mapped_bytes_, chunk, 0, handle, 0);
    static_cast<void>(driver->vmm_release(handle));
    if (result != kCuSuccess) {
      return driver.error("cuMemMap", result);
    }
    mapped_bytes_ += chunk;
  }
  const CuMemAccess access{of.location, kCuAccessReadWrite};
  result = driver->vmm_set_access(allocation_, all, &access, 1);
  return result == kCuSuccess ? Result<void>() : driver.error("cuMemSetAccess", result);
}

Result<void> DeviceRows::acquire(std::uint64_t size_bytes, RowsMemory memory, int ordinal) {
  const CudaDriver& driver = context_.driver();
  const CurrentContext current(context_);
  if (current.result() != kCuSuccess) {
    return driver.error("cuCtxPushCurrent", current.result());
  }
  CuResult result = driver->stream_create(&stream_, kCuStreamNonBlocking, 0);
  if (result != kCuSuccess) {
    return driver.error("cuStreamCreateWithPriority", result);
  }
  const std::uint64_t bytes = kInnerOffset + size_bytes;
  if (memory != RowsMemory::allocation) {
    HC_TRY_VOID(map_chunks(bytes, memory, ordinal));
  } else if (result = driver->mem_alloc(&allocation_, bytes); result != kCuSuccess) {
    return driver.error("cuMemAlloc of " + std::to_string(bytes) + " bytes", result);
  }
  result = driver->host_alloc(&mirror_, size_bytes, kCuHostPortable);
  return result == kCuSuccess ? Result<void>() : driver.error("cuMemHostAlloc", result);
}

DeviceRows::~DeviceRows() {
  const CudaDriver& driver = context_.driver();
  const CurrentContext current(context_);
  if (stream_ != nullptr) {
    static_cast<void>(driver->stream_destroy(stream_));
  }
  if (mirror_ != nullptr) {
    static_cast<void>(driver->host_free(mirror_));
  }
  if (mapped_bytes_ != 0) {
    static_cast<void>(driver->vmm_unmap(allocation_, mapped_bytes_));
  }
  if (reserved_bytes_ != 0) {
    static_cast<void>(driver->vmm_address_free(allocation_, reserved_bytes_));
  } else if (allocation_ != 0) {
    static_cast<void>(driver->mem_free(allocation_));
  }
}

std::string DeviceRows::device_name() const {
  std::array<char, kNameBytes> name{};
  const CudaDriver& driver = context_.driver();
  const CuResult result =
      driver->device_name(name.data(), static_cast<int>(kNameBytes - 1), context_.device());
  return result == kCuSuccess ? name.data() : driver.error("cuDeviceGetName", result).message();
}

std::uint64_t DeviceRows::address() const { return allocation_ + kInnerOffset; }

Result<void> DeviceRows::push(const Range& range) {
  const CudaDriver& driver = context_.driver();
  const CurrentContext current(context_);
  const CuResult result = driver->copy_to_device(address() + range.offset, mirror() + range.offset,
                                                 range.size_bytes, stream_);
  return result == kCuSuccess ? Result<void>() : driver.error("cuMemcpyHtoDAsync", result);
}

Result<void> DeviceRows::pull(const Range& range) {
  const CudaDriver& driver = context_.driver();
  const CurrentContext current(context_);
  const CuResult result = driver->copy_to_host(mirror() + range.offset, address() + range.offset,
                                               range.size_bytes, stream_);
  return result == kCuSuccess ? settle() : driver.error("cuMemcpyDtoHAsync", result);
}

Result<void> DeviceRows::settle() const {
  const CudaDriver& driver = context_.driver();
  const CurrentContext current(context_);
  CuResult result = kCuSuccess;
  while ((result = driver->stream_query(stream_)) == kCuNotReady) {
    ::sched_yield();
  }
  return result == kCuSuccess ? Result<void>() : driver.error("cuStreamQuery", result);
}

}  // namespace hc
