// SPDX-License-Identifier: Apache-2.0
// device_rows: an allocation, a stream and a pinned mirror.
#include "client/ctl/device_rows.h"

#include <sched.h>

#include <array>
#include <utility>

namespace hc {

namespace {

// Where the rows begin in the allocation: no multiple of a block.
constexpr std::uint64_t kInnerOffset = 3 * 512 + 65536;
constexpr std::size_t kNameBytes = 128;

}  // namespace

Result<std::unique_ptr<DeviceRows>> DeviceRows::make(std::uint64_t size_bytes,
                                                     std::uint32_t rank) {
  const auto driver = CudaDriver::load();
  HC_TRY(driver);
  auto context = PrimaryContext::retain(
      *driver, static_cast<int>(rank % static_cast<std::uint32_t>(driver->device_count())));
  HC_TRY(context);
  auto rows = std::make_unique<DeviceRows>(std::move(*context));
  HC_TRY_VOID(rows->acquire(size_bytes));
  return rows;
}

Result<void> DeviceRows::acquire(std::uint64_t size_bytes) {
  const CudaDriver& driver = context_.driver();
  const CurrentContext current(context_);
  if (current.result() != kCuSuccess) {
    return driver.error("cuCtxPushCurrent", current.result());
  }
  CuResult result = driver->stream_create(&stream_, kCuStreamNonBlocking, 0);
  if (result != kCuSuccess) {
    return driver.error("cuStreamCreateWithPriority", result);
  }
  result = driver->mem_alloc(&allocation_, kInnerOffset + size_bytes);
  if (result != kCuSuccess) {
    return driver.error("cuMemAlloc of " + std::to_string(kInnerOffset + size_bytes) + " bytes",
                        result);
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
  if (allocation_ != 0) {
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
