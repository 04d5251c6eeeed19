// SPDX-License-Identifier: Apache-2.0
// chunk_map: chunks of another process's memory, imported by their descriptors and mapped behind
// each other.
//
// Owner thread: the keeper's, with the device's context current. Invariants: a map is whole or not
// there; the driver's handles of the chunks are released as soon as they are mapped, because a
// mapping keeps its memory by itself.
#pragma once

#include <cstdint>

#include "daemon/gpu/device_memory.h"
#include "shm/gpu/cuda_device.h"

namespace hc {

struct ChunkMap {
  CuAddress base = 0;
  std::uint64_t bytes = 0;
};

// The chunks follow each other, and each has its descriptor, which stays the caller's. Errors:
// bad_argument (a size that is no multiple of what the device maps), refused (a chunk of another
// device), unsupported (this driver maps no chunks), io_error; with any of them nothing is left.
Result<ChunkMap> map_chunks(const CudaDevice& device, const DeviceExport& wanted);
// No copy touches it any more.
void unmap_chunks(const CudaDriver& driver, const ChunkMap& map);

}  // namespace hc
