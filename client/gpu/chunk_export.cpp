// SPDX-License-Identifier: Apache-2.0
// chunk_export: walks the mappings behind an address, then asks for their descriptors.
#include "client/gpu/chunk_export.h"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <utility>

#include "client/gpu/device_error.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr const char* kNoHandle = "IS_LEGACY_CUDA_IPC_CAPABLE = 0, ";

Result<void> check_way(const CudaDriver& driver, int ordinal, std::uint64_t address) {
  void* pool = nullptr;
  if (driver->pointer_attribute(&pool, kCuPointerPool, address) == kCuSuccess && pool != nullptr) {
    return not_exportable(address, std::string(kNoHandle) +
                                       "MEMPOOL_HANDLE is set: memory of a pool, cuMemAllocAsync");
  }
  const bool has_entries = driver->vmm_retain != nullptr && driver->vmm_properties != nullptr &&
                           driver->vmm_export != nullptr && driver->vmm_release != nullptr;
  CuDevice device = 0;
  int shares = 0;
  if (!has_entries || driver->device_get(&device, ordinal) != kCuSuccess ||
      driver->device_attribute(&shares, kCuDeviceVmmPosixFd, device) != kCuSuccess || shares == 0) {
    return not_exportable(address, std::string(kNoHandle) +
                                       "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 0");
  }
  return {};
}

// The mapping that an address lies in; drivers before 12.0 don't know the attributes.
Result<DeviceRange> mapping_at(const CudaDriver& driver, std::uint64_t address) {
  CuAddress base = 0;
  std::size_t bytes = 0;
  CuResult result = driver->pointer_attribute(&base, kCuPointerMappingBase, address);
  if (result == kCuSuccess) {
    result = driver->pointer_attribute(&bytes, kCuPointerMappingSize, address);
  }
  if (result != kCuSuccess) {
    result = driver->mem_range(&base, &bytes, address);
  }
  if (result != kCuSuccess) {
    return driver.error("cuMemGetAddressRange of " + address_text(address), result);
  }
  if (base > address || address - base >= bytes) {
    return make_error(Code::io_error, "the driver gives " + address_text(address) +
                                          " a mapping that it does not lie in");
  }
  return DeviceRange{base, bytes};
}

Error ends_early(const DeviceRange& range, std::uint64_t end) {
  return make_error(Code::bad_argument,
                    "region.size_bytes = " + std::to_string(range.size_bytes) + ": must be 1.." +
                        std::to_string(end - range.address) + ", to the end of what is mapped");
}

Result<std::vector<DeviceRange>> find_chunks(const CudaDriver& driver, const DeviceRange& range) {
  std::vector<DeviceRange> chunks;
  std::uint64_t end = range.address;
  do {
    auto chunk = mapping_at(driver, end);
    if (!chunk) {
      return chunks.empty() ? chunk.error() : ends_early(range, end);
    }
    if (!chunks.empty() && chunk->address != end) {
      return ends_early(range, end);
    }
    chunks.push_back(*chunk);
    end = chunk->address + chunk->size_bytes;
  } while (end - range.address < range.size_bytes);
  return chunks;
}

Result<UniqueFd> export_chunk(const CudaDriver& driver, int ordinal, std::uint64_t address) {
  CuMemHandle handle = 0;
  CuResult result = driver->vmm_retain(&handle, reinterpret_cast<void*>(address));
  if (result != kCuSuccess) {
    const Error error = driver.error("cuMemRetainAllocationHandle", result);
    return not_exportable(address, std::string(kNoHandle) + error.text);
  }
  CuMemProperties made{};
  const char* call = "cuMemGetAllocationPropertiesFromHandle";
  result = driver->vmm_properties(&made, handle);
  const bool is_here =
      made.location.type == kCuLocationDevice && made.location.id == ordinal;
  const bool may_leave = (made.handle_types & kCuHandlePosixFd) != 0;
  int fd = -1;
  if (result == kCuSuccess && is_here && may_leave) {
    call = "cuMemExportToShareableHandle";
    result = driver->vmm_export(&fd, handle, kCuHandlePosixFd, 0);
  }
  static_cast<void>(driver->vmm_release(handle));
  if (result != kCuSuccess) {
    return driver.error(call, result);
  }
  if (!is_here || !may_leave) {
    return not_exportable(
        address, std::string(kNoHandle) +
                     (is_here ? "cuMemCreate was not asked for CU_MEM_HANDLE_TYPE_POSIX_FILE_"
                                "DESCRIPTOR: requestedHandleTypes = " +
                                    std::to_string(made.handle_types)
                              : "it is of location type " + std::to_string(made.location.type) +
                                    ", id " + std::to_string(made.location.id)));
  }
  UniqueFd exported(fd);
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return make_error(Code::io_error, "descriptor of a chunk", errno);
  }
  return exported;
}

}  // namespace

Result<ExportedChunks> export_chunks(const CudaDriver& driver, int ordinal,
                                     const DeviceRange& range) {
  if (range.size_bytes == 0 || range.size_bytes > UINT64_MAX - range.address) {
    return make_error(Code::bad_argument, "region.size_bytes = " +
                                              std::to_string(range.size_bytes) +
                                              ": must be at least 1, and end in what is mapped");
  }
  HC_TRY_VOID(check_way(driver, ordinal, range.address));
  const auto found = find_chunks(driver, range);
  HC_TRY(found);
  if (found->size() > kChunksPerRegionMax) {
    return not_exportable(range.address, std::string(kNoHandle) + "the region lies in " +
                                             std::to_string(found->size()) +
                                             " chunks of cuMemCreate: at most " +
                                             std::to_string(kChunksPerRegionMax) +
                                             ", or HICACHE_TRANSFER_RANK, which has no limit");
  }
  ExportedChunks out;
  out.offset_bytes = range.address - found->front().address;
  for (const DeviceRange& chunk : *found) {
    auto fd = export_chunk(driver, ordinal, chunk.address);
    HC_TRY(fd);
    out.chunks.push_back({out.all_bytes, chunk.size_bytes});
    out.fds.push_back(std::move(*fd));
    out.all_bytes += chunk.size_bytes;
  }
  return out;
}

}  // namespace hc
