// SPDX-License-Identifier: Apache-2.0
// chunk_map: import, reserve, map, and the way back from each step.
#include "daemon/gpu/chunk_map.h"

#include <string>

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

std::string chunk_text(std::size_t index) { return "chunks[" + std::to_string(index) + "]"; }

Result<void> check_entries(const CudaDriver& driver) {
  const bool has_all = driver->vmm_granularity != nullptr && driver->vmm_import != nullptr &&
                       driver->vmm_properties != nullptr && driver->vmm_release != nullptr &&
                       driver->vmm_reserve != nullptr && driver->vmm_address_free != nullptr &&
                       driver->vmm_map != nullptr && driver->vmm_unmap != nullptr &&
                       driver->vmm_set_access != nullptr;
  if (!has_all) {
    return make_error(Code::unsupported, "the daemon's driver maps no chunks of cuMemCreate");
  }
  return {};
}

Result<void> check_sizes(const CudaDevice& device, const DeviceExport& wanted) {
  CuMemProperties of{};
  of.type = kCuAllocationPinned;
  of.handle_types = kCuHandlePosixFd;
  of.location = {kCuLocationDevice, device.facts().ordinal};
  std::size_t unit = 0;
  const CuResult result =
      device.driver()->vmm_granularity(&unit, &of, kCuGranularityMinimum);
  if (result != kCuSuccess || unit == 0) {
    return device.driver().error("cuMemGetAllocationGranularity", result);
  }
  for (std::size_t i = 0; i < wanted.chunks.size(); ++i) {
    if (wanted.chunks[i].size_bytes % unit != 0) {
      return make_error(Code::bad_argument,
                        chunk_text(i) + ".size_bytes = " +
                            std::to_string(wanted.chunks[i].size_bytes) +
                            ": must be a multiple of " + std::to_string(unit) +
                            ", as the device maps");
    }
  }
  return {};
}

// Undoes what it has done, unless it is told to keep it.
class Mapper {
 public:
  Mapper(const CudaDevice& device, std::uint64_t bytes)
      : device_(device), driver_(device.driver()), bytes_(bytes) {}
  Mapper(const Mapper&) = delete;
  Mapper& operator=(const Mapper&) = delete;
  ~Mapper() {
    if (mapped_ > 0) {
      static_cast<void>(driver_->vmm_unmap(base_, mapped_));
    }
    if (base_ != 0) {
      static_cast<void>(driver_->vmm_address_free(base_, bytes_));
    }
  }

  Result<void> reserve() {
    const CuResult result = driver_->vmm_reserve(&base_, bytes_, 0, 0, 0);
    if (result != kCuSuccess) {
      base_ = 0;
      return driver_.error("cuMemAddressReserve of " + std::to_string(bytes_) + " bytes", result);
    }
    return {};
  }

  Result<void> add(const std::string& name, int fd, std::uint64_t bytes) {
    CuMemHandle handle = 0;
    auto* const by_value = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
    const CuResult imported = driver_->vmm_import(&handle, by_value, kCuHandlePosixFd);
    if (imported != kCuSuccess) {
      return driver_.error(name + ": cuMemImportFromShareableHandle", imported);
    }
    auto mapped = map(name, handle, bytes);
    static_cast<void>(driver_->vmm_release(handle));
    return mapped;
  }

  Result<ChunkMap> finish() {
    const CuMemAccess access{{kCuLocationDevice, device_.facts().ordinal}, kCuAccessReadWrite};
    const CuResult result = driver_->vmm_set_access(base_, bytes_, &access, 1);
    if (result != kCuSuccess) {
      return driver_.error("cuMemSetAccess", result);
    }
    const ChunkMap out{base_, bytes_};
    base_ = 0;
    mapped_ = 0;
    return out;
  }

 private:
  Result<void> map(const std::string& name, CuMemHandle handle, std::uint64_t bytes) {
    CuMemProperties of{};
    CuResult result = driver_->vmm_properties(&of, handle);
    if (result != kCuSuccess) {
      return driver_.error(name + ": cuMemGetAllocationPropertiesFromHandle", result);
    }
    if (of.location.type != kCuLocationDevice || of.location.id != device_.facts().ordinal) {
      return make_error(Code::refused, name + ": is memory of another device than " +
                                           uuid_text(device_.uuid()));
    }
    result = driver_->vmm_map(base_ + mapped_, bytes, 0, handle, 0);
    if (result != kCuSuccess) {
      return driver_.error(name + ": cuMemMap of " + std::to_string(bytes) + " bytes", result);
    }
    mapped_ += bytes;
    return {};
  }

  const CudaDevice& device_;
  const CudaDriver& driver_;
  const std::uint64_t bytes_;
  CuAddress base_ = 0;
  std::uint64_t mapped_ = 0;
};

}  // namespace

Result<ChunkMap> map_chunks(const CudaDevice& device, const DeviceExport& wanted) {
  const std::size_t count = wanted.chunks.size();
  HC_CHECK(count > 0 && wanted.fds.size() == count);
  HC_TRY_VOID(check_entries(device.driver()));
  HC_TRY_VOID(check_sizes(device, wanted));
  const RegionChunk& last = wanted.chunks.back();
  Mapper mapper(device, last.offset_bytes + last.size_bytes);
  HC_TRY_VOID(mapper.reserve());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = HC_MUTANT(chunks_swapped) ? count - 1 - i : i;
    HC_TRY_VOID(mapper.add(chunk_text(i), wanted.fds[from].get(), wanted.chunks[i].size_bytes));
  }
  return mapper.finish();
}

void unmap_chunks(const CudaDriver& driver, const ChunkMap& map) {
  static_cast<void>(driver->vmm_unmap(map.base, map.bytes));
  static_cast<void>(driver->vmm_address_free(map.base, map.bytes));
}

}  // namespace hc
