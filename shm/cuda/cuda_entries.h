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
#include <cstdint>

#include "shm/cuda/cuda_types.h"

// Every driver from 11.4 on has them; one that lacks any is no driver for us.
#define HC_CUDA_ENTRIES(ENTRY)                                                                     \
  ENTRY(driver_get_version, "cuDriverGetVersion", 2020, "cuDriverGetVersion", int*)                \
  ENTRY(get_error_name, "cuGetErrorName", 6000, "cuGetErrorName", CuResult, const char**)          \
  ENTRY(device_get_count, "cuDeviceGetCount", 2000, "cuDeviceGetCount", int*)                      \
  ENTRY(device_get, "cuDeviceGet", 2000, "cuDeviceGet", CuDevice*, int)                            \
  ENTRY(device_attribute, "cuDeviceGetAttribute", 2000, "cuDeviceGetAttribute", int*, int,         \
        CuDevice)                                                                                  \
  ENTRY(device_name, "cuDeviceGetName", 2000, "cuDeviceGetName", char*, int, CuDevice)             \
  ENTRY(device_uuid, "cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2", CuUuid*, CuDevice)            \
  ENTRY(device_pci, "cuDeviceGetPCIBusId", 4010, "cuDeviceGetPCIBusId", char*, int, CuDevice)      \
  ENTRY(primary_retain, "cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain", CuContext*,  \
        CuDevice)                                                                                  \
  ENTRY(primary_release, "cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2",       \
        CuDevice)                                                                                  \
  ENTRY(primary_state, "cuDevicePrimaryCtxGetState", 7000, "cuDevicePrimaryCtxGetState", CuDevice, \
        unsigned*, int*)                                                                           \
  ENTRY(ctx_push, "cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2", CuContext)                      \
  ENTRY(ctx_pop, "cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2", CuContext*)                        \
  ENTRY(ctx_current, "cuCtxGetCurrent", 4000, "cuCtxGetCurrent", CuContext*)                       \
  ENTRY(ctx_priorities, "cuCtxGetStreamPriorityRange", 5050, "cuCtxGetStreamPriorityRange", int*,  \
        int*)                                                                                      \
  ENTRY(stream_create, "cuStreamCreateWithPriority", 5050, "cuStreamCreateWithPriority",           \
        CuStream*, unsigned, int)                                                                  \
  ENTRY(stream_destroy, "cuStreamDestroy", 4000, "cuStreamDestroy_v2", CuStream)                   \
  ENTRY(stream_query, "cuStreamQuery", 2000, "cuStreamQuery", CuStream)                            \
  ENTRY(stream_wait_event, "cuStreamWaitEvent", 3020, "cuStreamWaitEvent", CuStream, CuEvent,      \
        unsigned)                                                                                  \
  ENTRY(stream_is_capturing, "cuStreamIsCapturing", 10000, "cuStreamIsCapturing", CuStream, int*)  \
  ENTRY(event_create, "cuEventCreate", 2000, "cuEventCreate", CuEvent*, unsigned)                  \
  ENTRY(event_destroy, "cuEventDestroy", 4000, "cuEventDestroy_v2", CuEvent)                       \
  ENTRY(event_record, "cuEventRecord", 2000, "cuEventRecord", CuEvent, CuStream)                   \
  ENTRY(event_query, "cuEventQuery", 2000, "cuEventQuery", CuEvent)                                \
  ENTRY(mem_info, "cuMemGetInfo", 3020, "cuMemGetInfo_v2", std::size_t*, std::size_t*)             \
  ENTRY(mem_alloc, "cuMemAlloc", 3020, "cuMemAlloc_v2", CuAddress*, std::size_t)                   \
  ENTRY(mem_free, "cuMemFree", 3020, "cuMemFree_v2", CuAddress)                                    \
  ENTRY(mem_range, "cuMemGetAddressRange", 3020, "cuMemGetAddressRange_v2", CuAddress*,            \
        std::size_t*, CuAddress)                                                                   \
  ENTRY(pointer_attribute, "cuPointerGetAttribute", 4000, "cuPointerGetAttribute", void*, int,     \
        CuAddress)                                                                                 \
  ENTRY(host_alloc, "cuMemHostAlloc", 2020, "cuMemHostAlloc", void**, std::size_t, unsigned)       \
  ENTRY(host_free, "cuMemFreeHost", 2000, "cuMemFreeHost", void*)                                  \
  ENTRY(host_register, "cuMemHostRegister", 6050, "cuMemHostRegister_v2", void*, std::size_t,      \
        unsigned)                                                                                  \
  ENTRY(host_unregister, "cuMemHostUnregister", 4000, "cuMemHostUnregister", void*)                \
  ENTRY(host_device_pointer, "cuMemHostGetDevicePointer", 3020, "cuMemHostGetDevicePointer_v2",    \
        CuAddress*, void*, unsigned)                                                               \
  ENTRY(ipc_get_mem, "cuIpcGetMemHandle", 4010, "cuIpcGetMemHandle", CuIpcMemHandle*, CuAddress)   \
  ENTRY(ipc_open_mem, "cuIpcOpenMemHandle", 11000, "cuIpcOpenMemHandle_v2", CuAddress*,            \
        CuIpcMemHandle, unsigned)                                                                  \
  ENTRY(ipc_close_mem, "cuIpcCloseMemHandle", 4010, "cuIpcCloseMemHandle", CuAddress)              \
  ENTRY(ipc_get_event, "cuIpcGetEventHandle", 4010, "cuIpcGetEventHandle", CuIpcEventHandle*,      \
        CuEvent)                                                                                   \
  ENTRY(ipc_open_event, "cuIpcOpenEventHandle", 4010, "cuIpcOpenEventHandle", CuEvent*,            \
        CuIpcEventHandle)                                                                          \
  ENTRY(copy_to_device, "cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2", CuAddress, const void*, \
        std::size_t, CuStream)                                                                     \
  ENTRY(copy_to_host, "cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2", void*, CuAddress,         \
        std::size_t, CuStream)                                                                     \
  ENTRY(memset_async, "cuMemsetD8Async", 3020, "cuMemsetD8Async", CuAddress, unsigned char,        \
        std::size_t, CuStream)

// Their pointers may be null. The batch copy comes in two ABIs of one base name: nine arguments
// from 12.8 on, eight from 13.0 on, and a newer driver has both. Use the eight if they are there.
#define HC_CUDA_OPTIONAL_ENTRIES(ENTRY)                                                            \
  ENTRY(copy_batch_v2, "cuMemcpyBatchAsync", 13000, "cuMemcpyBatchAsync_v2", CuAddress*,           \
        CuAddress*, std::size_t*, std::size_t, CuMemcpyAttributes*, std::size_t*, std::size_t,     \
        CuStream)                                                                                  \
  ENTRY(copy_batch_v1, "cuMemcpyBatchAsync", 12080, "cuMemcpyBatchAsync", CuAddress*, CuAddress*,  \
        std::size_t*, std::size_t, CuMemcpyAttributes*, std::size_t*, std::size_t, std::size_t*,   \
        CuStream)                                                                                  \
  ENTRY(stream_write_value64, "cuStreamWriteValue64", 11070, "cuStreamWriteValue64_v2", CuStream,  \
        CuAddress, std::uint64_t, unsigned)                                                        \
  ENTRY(stream_wait_value64, "cuStreamWaitValue64", 11070, "cuStreamWaitValue64_v2", CuStream,     \
        CuAddress, std::uint64_t, unsigned)                                                        \
  ENTRY(mem_alloc_async, "cuMemAllocAsync", 11020, "cuMemAllocAsync", CuAddress*, std::size_t,     \
        CuStream)                                                                                  \
  ENTRY(mem_free_async, "cuMemFreeAsync", 11020, "cuMemFreeAsync", CuAddress, CuStream)            \
  ENTRY(vmm_granularity, "cuMemGetAllocationGranularity", 10020, "cuMemGetAllocationGranularity",  \
        std::size_t*, const CuMemProperties*, int)                                                 \
  ENTRY(vmm_create, "cuMemCreate", 10020, "cuMemCreate", CuMemHandle*, std::size_t,                \
        const CuMemProperties*, unsigned long long)                                                \
  ENTRY(vmm_release, "cuMemRelease", 10020, "cuMemRelease", CuMemHandle)                           \
  ENTRY(vmm_retain, "cuMemRetainAllocationHandle", 11000, "cuMemRetainAllocationHandle",           \
        CuMemHandle*, void*)                                                                       \
  ENTRY(vmm_properties, "cuMemGetAllocationPropertiesFromHandle", 10020,                           \
        "cuMemGetAllocationPropertiesFromHandle", CuMemProperties*, CuMemHandle)                   \
  ENTRY(vmm_export, "cuMemExportToShareableHandle", 10020, "cuMemExportToShareableHandle", void*,  \
        CuMemHandle, int, unsigned long long)                                                      \
  ENTRY(vmm_import, "cuMemImportFromShareableHandle", 10020, "cuMemImportFromShareableHandle",     \
        CuMemHandle*, void*, int)                                                                  \
  ENTRY(vmm_reserve, "cuMemAddressReserve", 10020, "cuMemAddressReserve", CuAddress*, std::size_t, \
        std::size_t, CuAddress, unsigned long long)                                                \
  ENTRY(vmm_address_free, "cuMemAddressFree", 10020, "cuMemAddressFree", CuAddress, std::size_t)   \
  ENTRY(vmm_map, "cuMemMap", 10020, "cuMemMap", CuAddress, std::size_t, std::size_t, CuMemHandle,  \
        unsigned long long)                                                                        \
  ENTRY(vmm_unmap, "cuMemUnmap", 10020, "cuMemUnmap", CuAddress, std::size_t)                      \
  ENTRY(vmm_set_access, "cuMemSetAccess", 10020, "cuMemSetAccess", CuAddress, std::size_t,         \
        const CuMemAccess*, std::size_t)

namespace hc {

struct CudaEntries {
#define HC_CUDA_MEMBER(member, base, version, symbol, ...) \
  CuResult (*member)(__VA_ARGS__) = nullptr;
  HC_CUDA_ENTRIES(HC_CUDA_MEMBER)
  HC_CUDA_OPTIONAL_ENTRIES(HC_CUDA_MEMBER)
#undef HC_CUDA_MEMBER
};

}  // namespace hc
