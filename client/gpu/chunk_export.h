// SPDX-License-Identifier: Apache-2.0
// chunk_export: memory of cuMemCreate, which no handle stands for: the chunks that a region lies
// in, and a descriptor of each.
//
// Owner thread: any, with the device's context current. Invariants: chunks follow each other, the
// first one begins at or before the region; no handle of the driver is left behind.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/handshake.h"
#include "proto/result.h"
#include "shm/cuda/cuda_driver.h"
#include "shm/unique_fd.h"

namespace hc {

struct DeviceRange {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
};

struct ExportedChunks {
  std::uint64_t offset_bytes = 0;  // of the region in the first chunk
  std::uint64_t all_bytes = 0;
  std::vector<RegionChunk> chunks;
  std::vector<UniqueFd> fds;       // one of each chunk; each keeps its memory alive
};

// Of memory that has no legacy handle. Errors: bad_argument (it is not mapped to its end),
// unsupported (of a pool, not made to be exported, of another place, in too many chunks, or this
// driver knows no such memory), io_error.
Result<ExportedChunks> export_chunks(const CudaDriver& driver, int ordinal,
                                     const DeviceRange& range);

}  // namespace hc
