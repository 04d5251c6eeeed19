// SPDX-License-Identifier: Apache-2.0
// cuda_mapping: a region of a client's device memory, and the events by which its client says that
// its own work there is done.
//
// Owner thread: any; plain values. Whoever copies there holds it: the last one to let go hands it
// to the keeper, which closes what no other mapping needs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shm/gpu/cuda_device.h"

namespace hc {

struct CudaMapping {
  CuAddress base = 0;  // of the region, in the device's address space of this process
  std::uint64_t size_bytes = 0;
  std::shared_ptr<CudaDevice> device;
  std::vector<CuEvent> events;  // by operation slot; none: its client gave none
};
using CudaMappingPtr = std::shared_ptr<const CudaMapping>;

}  // namespace hc
