// SPDX-License-Identifier: Apache-2.0
// cuda_entries: the table of the driver's entry points that we call; a new one is one line.
//
// Owner thread: any; plain values.
//
// Columns: our name; the name that cuGetProcAddress knows; the ABI version to ask for (the version
// of CUDA that brought this signature: 3020 is 3.2); the name for dlsym, with its suffix, because
// the headers of the toolkit rename at compile time; the parameters. All answer a CuResult.
// cuInit and cuGetProcAddress_v2 are not here: they come before the table.
#pragma once

#include <cstddef>

#include "shm/cuda/cuda_types.h"

#define HC_CUDA_ENTRIES(ENTRY)                                                                    \
  ENTRY(driver_get_version, "cuDriverGetVersion", 2020, "cuDriverGetVersion", int*)               \
  ENTRY(get_error_name, "cuGetErrorName", 6000, "cuGetErrorName", CuResult, const char**)         \
  ENTRY(device_get_count, "cuDeviceGetCount", 2000, "cuDeviceGetCount", int*)                     \
  ENTRY(device_get, "cuDeviceGet", 2000, "cuDeviceGet", CuDevice*, int)                           \
  ENTRY(primary_retain, "cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain", CuContext*, \
        CuDevice)                                                                                 \
  ENTRY(primary_release, "cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2",      \
        CuDevice)                                                                                 \
  ENTRY(ctx_push, "cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2", CuContext)                     \
  ENTRY(ctx_pop, "cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2", CuContext*)                       \
  ENTRY(ctx_priorities, "cuCtxGetStreamPriorityRange", 5050, "cuCtxGetStreamPriorityRange", int*, \
        int*)                                                                                     \
  ENTRY(stream_create, "cuStreamCreateWithPriority", 5050, "cuStreamCreateWithPriority",          \
        CuStream*, unsigned, int)                                                                 \
  ENTRY(stream_destroy, "cuStreamDestroy", 4000, "cuStreamDestroy_v2", CuStream)                  \
  ENTRY(stream_query, "cuStreamQuery", 2000, "cuStreamQuery", CuStream)                           \
  ENTRY(event_create, "cuEventCreate", 2000, "cuEventCreate", CuEvent*, unsigned)                 \
  ENTRY(event_destroy, "cuEventDestroy", 4000, "cuEventDestroy_v2", CuEvent)                      \
  ENTRY(event_record, "cuEventRecord", 2000, "cuEventRecord", CuEvent, CuStream)                  \
  ENTRY(event_query, "cuEventQuery", 2000, "cuEventQuery", CuEvent)                               \
  ENTRY(mem_alloc, "cuMemAlloc", 3020, "cuMemAlloc_v2", CuAddress*, std::size_t)                  \
  ENTRY(mem_free, "cuMemFree", 3020, "cuMemFree_v2", CuAddress)                                   \
  ENTRY(host_alloc, "cuMemHostAlloc", 2020, "cuMemHostAlloc", void**, std::size_t, unsigned)      \
  ENTRY(host_free, "cuMemFreeHost", 2000, "cuMemFreeHost", void*)                                 \
  ENTRY(copy_to_device, "cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2", CuAddress,             \
        const void*, std::size_t, CuStream)                                                       \
  ENTRY(copy_to_host, "cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2", void*, CuAddress,        \
        std::size_t, CuStream)

namespace hc {

struct CudaEntries {
#define HC_CUDA_MEMBER(member, base, version, symbol, ...) \
  CuResult (*member)(__VA_ARGS__) = nullptr;
  HC_CUDA_ENTRIES(HC_CUDA_MEMBER)
#undef HC_CUDA_MEMBER
};

}  // namespace hc
