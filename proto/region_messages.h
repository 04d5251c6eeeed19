// SPDX-License-Identifier: Apache-2.0
// region_messages: how a client names memory of its own, and how pages lie in it: the body of
// register_region.
#pragma once

#include <array>
#include <cstdint>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/wire_struct.h"

namespace hc {

// rank: of a GPU, or whatever the client likes: it copies itself, between it and our frames.
enum class RegionKind : std::uint16_t { host = 1, cuda = 2, rank = 3 };

// Of an allocation or an event of a device, for another process: opaque.
using IpcHandle = std::array<std::uint8_t, 64>;

// How the memory of a cuda region leaves its process. legacy: by the handle of one allocation.
// vmm: memory of cuMemCreate has no handle, but each of its chunks may have a descriptor.
enum class ExportKind : std::uint16_t { none = 0, legacy = 1, vmm = 2 };

// cuda: after the runs come `event_count` handles of events, one for each operation slot. They are
// the session's: those of its first region count. Then come `chunk_count` chunks, each of which has
// a descriptor. rank: after the runs comes why the client copies itself, at most kReasonBytesMax.
struct RegionRequest {
  std::uint32_t region;             // chosen by the client, 0..kRegionsPerSession-1
  std::uint16_t region_kind;        // RegionKind
  std::uint16_t layout_count;       // LayoutRequest records that follow
  std::uint64_t offset_bytes;       // start of the region in its memory file, allocation or chunks
  std::uint64_t size_bytes;
  std::uint32_t rows;               // pages that fit
  std::uint32_t registration;       // cuda: the client's count of registrations, from 1
  Uuid device;                      // cuda: device UUID
  IpcHandle ipc_handle;             // legacy: of the allocation; else zero
  std::uint64_t allocation_bytes;   // cuda: of the allocation, or of all chunks
  std::uint64_t buffer;             // legacy: the driver's number of the allocation
  std::uint32_t event_count;        // cuda: 0 or kOpSlotsPerSession
  std::uint16_t export_kind;        // ExportKind
  std::uint16_t chunk_count;        // vmm: 1..kChunksPerRegionMax
  std::uint64_t device_free_bytes;  // cuda: memory free on the device before this; 0: unknown
};
static_assert(WireStruct<RegionRequest> && sizeof(RegionRequest) == 144);

// Of physical memory: chunks follow each other without a gap, the first one at 0.
struct RegionChunk {
  std::uint64_t offset_bytes;
  std::uint64_t size_bytes;
};
static_assert(WireStruct<RegionChunk> && sizeof(RegionChunk) == 16);

struct LayoutRequest {
  std::uint16_t kind;
  std::uint16_t run_count;          // LayoutRun records, after all LayoutRequest records
  std::uint32_t reserved;
};
static_assert(WireStruct<LayoutRequest> && sizeof(LayoutRequest) == 8);

// Bytes [r, r + length) of page `row` lie at offset + row * stride; the payload is its runs in
// order.
struct LayoutRun {
  std::uint64_t offset_bytes;
  std::uint64_t stride_bytes;
  std::uint64_t length_bytes;
};
static_assert(WireStruct<LayoutRun> && sizeof(LayoutRun) == 24);

}  // namespace hc
