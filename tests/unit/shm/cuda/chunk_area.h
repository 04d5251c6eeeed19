// SPDX-License-Identifier: Apache-2.0
// chunk_area: memory as expandable segments have it: chunks of cuMemCreate behind each other.
//
// Owner thread: any, with a context of device 0 current. On any driver that has such memory.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

#include "proto/check.h"
#include "shm/cuda/cuda_driver.h"
#include "shm/unique_fd.h"

namespace hc::test {

inline constexpr std::size_t kChunkBytes = std::size_t{2} << 20;

inline CuMemProperties chunk_properties(int handle_types, int ordinal = 0) {
  CuMemProperties of = {};
  of.type = kCuAllocationPinned;
  of.handle_types = handle_types;
  of.location = {kCuLocationDevice, ordinal};
  return of;
}

// One stretch of addresses, which `ordinal` may read and write. `handle_types`: of each chunk, as
// cuMemCreate is asked. The handles are let go of: the mappings keep the memory.
inline CuAddress map_area(const CudaDriver& driver, const std::vector<std::size_t>& sizes,
                          int handle_types, int ordinal = 0) {
  const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  const CuMemProperties of = chunk_properties(handle_types, ordinal);
  const CuMemAccess access = {{kCuLocationDevice, ordinal}, kCuAccessReadWrite};
  CuAddress area = 0;
  HC_CHECK(driver->vmm_reserve(&area, all, 0, 0, 0) == kCuSuccess);
  CuAddress at = area;
  for (const std::size_t bytes : sizes) {
    CuMemHandle handle = 0;
    HC_CHECK(driver->vmm_create(&handle, bytes, &of, 0) == kCuSuccess);
    HC_CHECK(driver->vmm_map(at, bytes, 0, handle, 0) == kCuSuccess);
    HC_CHECK(driver->vmm_release(handle) == kCuSuccess);
    at += bytes;
  }
  HC_CHECK(driver->vmm_set_access(area, all, &access, 1) == kCuSuccess);
  return area;
}

// A descriptor of each of the first `count` chunks from `area` on.
inline std::vector<UniqueFd> export_area(const CudaDriver& driver, CuAddress area,
                                         std::size_t count) {
  std::vector<UniqueFd> fds;
  for (CuAddress at = area; fds.size() < count;) {
    CuMemHandle handle = 0;
    CuAddress base = 0;
    std::size_t bytes = 0;
    int fd = -1;
    HC_CHECK(driver->mem_range(&base, &bytes, at) == kCuSuccess && base == at);
    HC_CHECK(driver->vmm_retain(&handle, reinterpret_cast<void*>(at)) == kCuSuccess);
    HC_CHECK(driver->vmm_export(&fd, handle, kCuHandlePosixFd, 0) == kCuSuccess);
    HC_CHECK(driver->vmm_release(handle) == kCuSuccess);
    fds.emplace_back(fd);
    at += bytes;
  }
  return fds;
}

inline void unmap_area(const CudaDriver& driver, CuAddress area, std::size_t bytes) {
  HC_CHECK(driver->vmm_unmap(area, bytes) == kCuSuccess);
  HC_CHECK(driver->vmm_address_free(area, bytes) == kCuSuccess);
}

}  // namespace hc::test
