// SPDX-License-Identifier: Apache-2.0
// cuda_abi_test: our own declarations of the driver's ABI are those of the toolkit's header. On a
// machine without a toolkit there is nothing to compare.
#include <cstddef>
#include <cstdint>

#include "shm/cuda/cuda_entries.h"
#include "support/catch.h"

#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

namespace hc {
namespace {

template <typename Type>
concept Complete = requires {
  sizeof(Type);
};

// Passed in the same way: an enumeration of theirs is a number of ours, a handle is a pointer.
template <typename Ours, typename Theirs>
constexpr bool same_abi() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    using OursAt = std::remove_pointer_t<Ours>;
    using TheirsAt = std::remove_pointer_t<Theirs>;
    if constexpr (!std::is_pointer_v<Ours> || !std::is_pointer_v<Theirs>) {
      return false;
    } else if constexpr (std::is_const_v<OursAt> != std::is_const_v<TheirsAt>) {
      return false;
    } else if constexpr (!Complete<OursAt> || !Complete<TheirsAt>) {
      return !Complete<OursAt> && !Complete<TheirsAt>;
    } else {
      return same_abi<std::remove_const_t<OursAt>, std::remove_const_t<TheirsAt>>();
    }
  } else if constexpr (std::is_class_v<Ours> || std::is_class_v<Theirs>) {
    return std::is_class_v<Ours> && std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
           alignof(Ours) == alignof(Theirs);
  } else {
    return sizeof(Ours) == sizeof(Theirs) &&
           (std::is_enum_v<Theirs> || std::is_signed_v<Ours> == std::is_signed_v<Theirs>);
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename... Ours, typename... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) struct SameCall<CuResult (*)(Ours...), CUresult (*)(Theirs...)>
    : std::bool_constant<(same_abi<Ours, Theirs>() && ...)> {
};

// It does tell apart what is not the same.
static_assert(!same_abi<int, std::size_t>() && !same_abi<int*, CUcontext*>());
static_assert(!same_abi<CuAddress, void*>() && !same_abi<CuMemAccess, CUmemAllocationProp>());
static_assert(!SameCall<CuResult (*)(CuAddress), PFN_cuMemAlloc_v3020>::value);

// The type that the header gives to each of our entries, at the version that we ask for.
#define HC_CUDA_MEMBERS(MEMBER)                                             \
  MEMBER(driver_get_version, PFN_cuDriverGetVersion_v2020)                  \
  MEMBER(get_error_name, PFN_cuGetErrorName_v6000)                          \
  MEMBER(device_get_count, PFN_cuDeviceGetCount_v2000)                      \
  MEMBER(device_get, PFN_cuDeviceGet_v2000)                                 \
  MEMBER(device_attribute, PFN_cuDeviceGetAttribute_v2000)                  \
  MEMBER(device_name, PFN_cuDeviceGetName_v2000)                            \
  MEMBER(device_uuid, PFN_cuDeviceGetUuid_v11040)                           \
  MEMBER(device_pci, PFN_cuDeviceGetPCIBusId_v4010)                         \
  MEMBER(primary_retain, PFN_cuDevicePrimaryCtxRetain_v7000)                \
  MEMBER(primary_release, PFN_cuDevicePrimaryCtxRelease_v11000)             \
  MEMBER(primary_state, PFN_cuDevicePrimaryCtxGetState_v7000)               \
  MEMBER(ctx_push, PFN_cuCtxPushCurrent_v4000)                              \
  MEMBER(ctx_pop, PFN_cuCtxPopCurrent_v4000)                                \
  MEMBER(ctx_current, PFN_cuCtxGetCurrent_v4000)                            \
  MEMBER(ctx_priorities, PFN_cuCtxGetStreamPriorityRange_v5050)             \
  MEMBER(stream_create, PFN_cuStreamCreateWithPriority_v5050)               \
  MEMBER(stream_destroy, PFN_cuStreamDestroy_v4000)                         \
  MEMBER(stream_query, PFN_cuStreamQuery_v2000)                             \
  MEMBER(stream_wait_event, PFN_cuStreamWaitEvent_v3020)                    \
  MEMBER(stream_is_capturing, PFN_cuStreamIsCapturing_v10000)               \
  MEMBER(event_create, PFN_cuEventCreate_v2000)                             \
  MEMBER(event_destroy, PFN_cuEventDestroy_v4000)                           \
  MEMBER(event_record, PFN_cuEventRecord_v2000)                             \
  MEMBER(event_query, PFN_cuEventQuery_v2000)                               \
  MEMBER(mem_info, PFN_cuMemGetInfo_v3020)                                  \
  MEMBER(mem_alloc, PFN_cuMemAlloc_v3020)                                   \
  MEMBER(mem_free, PFN_cuMemFree_v3020)                                     \
  MEMBER(mem_range, PFN_cuMemGetAddressRange_v3020)                         \
  MEMBER(pointer_attribute, PFN_cuPointerGetAttribute_v4000)                \
  MEMBER(host_alloc, PFN_cuMemHostAlloc_v2020)                              \
  MEMBER(host_free, PFN_cuMemFreeHost_v2000)                                \
  MEMBER(host_register, PFN_cuMemHostRegister_v6050)                        \
  MEMBER(host_unregister, PFN_cuMemHostUnregister_v4000)                    \
  MEMBER(host_device_pointer, PFN_cuMemHostGetDevicePointer_v3020)          \
  MEMBER(ipc_get_mem, PFN_cuIpcGetMemHandle_v4010)                          \
  MEMBER(ipc_open_mem, PFN_cuIpcOpenMemHandle_v11000)                       \
  MEMBER(ipc_close_mem, PFN_cuIpcCloseMemHandle_v4010)                      \
  MEMBER(ipc_get_event, PFN_cuIpcGetEventHandle_v4010)                      \
  MEMBER(ipc_open_event, PFN_cuIpcOpenEventHandle_v4010)                    \
  MEMBER(copy_to_device, PFN_cuMemcpyHtoDAsync_v3020)                       \
  MEMBER(copy_to_host, PFN_cuMemcpyDtoHAsync_v3020)                         \
  MEMBER(memset_async, PFN_cuMemsetD8Async_v3020)                           \
  MEMBER(copy_batch_v2, PFN_cuMemcpyBatchAsync_v13000)                      \
  MEMBER(copy_batch_v1, PFN_cuMemcpyBatchAsync_v12080)                      \
  MEMBER(stream_write_value64, PFN_cuStreamWriteValue64_v11070)             \
  MEMBER(stream_wait_value64, PFN_cuStreamWaitValue64_v11070)               \
  MEMBER(mem_alloc_async, PFN_cuMemAllocAsync_v11020)                       \
  MEMBER(mem_free_async, PFN_cuMemFreeAsync_v11020)                         \
  MEMBER(vmm_granularity, PFN_cuMemGetAllocationGranularity_v10020)         \
  MEMBER(vmm_create, PFN_cuMemCreate_v10020)                                \
  MEMBER(vmm_release, PFN_cuMemRelease_v10020)                              \
  MEMBER(vmm_retain, PFN_cuMemRetainAllocationHandle_v11000)                \
  MEMBER(vmm_properties, PFN_cuMemGetAllocationPropertiesFromHandle_v10020) \
  MEMBER(vmm_export, PFN_cuMemExportToShareableHandle_v10020)               \
  MEMBER(vmm_import, PFN_cuMemImportFromShareableHandle_v10020)             \
  MEMBER(vmm_reserve, PFN_cuMemAddressReserve_v10020)                       \
  MEMBER(vmm_address_free, PFN_cuMemAddressFree_v10020)                     \
  MEMBER(vmm_map, PFN_cuMemMap_v10020)                                      \
  MEMBER(vmm_unmap, PFN_cuMemUnmap_v10020)                                  \
  MEMBER(vmm_set_access, PFN_cuMemSetAccess_v10020)

#define HC_CHECK_CALL(member, theirs) \
  static_assert(SameCall<decltype(CudaEntries::member), theirs>::value, #member);
HC_CUDA_MEMBERS(HC_CHECK_CALL)
#undef HC_CHECK_CALL

// Each entry is compared with the type of the very version that the table asks for, none left out.
#define HC_ASKED(member, base, version, symbol, ...) #member " PFN_" base "_v" #version,
#define HC_COMPARED(member, theirs) #member " " #theirs,
constexpr std::string_view kAsked[] = {HC_CUDA_ENTRIES(HC_ASKED)
                                           HC_CUDA_OPTIONAL_ENTRIES(HC_ASKED)};
constexpr std::string_view kCompared[] = {HC_CUDA_MEMBERS(HC_COMPARED)};
static_assert(std::ranges::equal(kAsked, kCompared));
#undef HC_ASKED
#undef HC_COMPARED

#define HC_SAME(ours, theirs) static_assert(static_cast<long>(ours) == static_cast<long>(theirs))
HC_SAME(kCuInvalidValue, CUDA_ERROR_INVALID_VALUE);
HC_SAME(kCuOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
HC_SAME(kCuNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
HC_SAME(kCuDeinitialized, CUDA_ERROR_DEINITIALIZED);
HC_SAME(kCuStubLibrary, CUDA_ERROR_STUB_LIBRARY);
HC_SAME(kCuDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
HC_SAME(kCuNoDevice, CUDA_ERROR_NO_DEVICE);
HC_SAME(kCuInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
HC_SAME(kCuInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
HC_SAME(kCuMapFailed, CUDA_ERROR_MAP_FAILED);
HC_SAME(kCuOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
HC_SAME(kCuInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
HC_SAME(kCuNotFound, CUDA_ERROR_NOT_FOUND);
HC_SAME(kCuNotReady, CUDA_ERROR_NOT_READY);
HC_SAME(kCuIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
HC_SAME(kCuContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
HC_SAME(kCuHostAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
HC_SAME(kCuHostNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
HC_SAME(kCuLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
HC_SAME(kCuNotPermitted, CUDA_ERROR_NOT_PERMITTED);
HC_SAME(kCuNotSupported, CUDA_ERROR_NOT_SUPPORTED);
HC_SAME(kCuUnknown, CUDA_ERROR_UNKNOWN);

HC_SAME(kCuStreamNonBlocking, CU_STREAM_NON_BLOCKING);
HC_SAME(kCuEventNoTiming, CU_EVENT_DISABLE_TIMING);
HC_SAME(kCuEventInterprocess, CU_EVENT_INTERPROCESS);
HC_SAME(kCuHostPortable, CU_MEMHOSTALLOC_PORTABLE);
HC_SAME(kCuHostPortable, CU_MEMHOSTREGISTER_PORTABLE);
HC_SAME(kCuHostDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP);
HC_SAME(kCuIpcLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

HC_SAME(kCuDevicePciBus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
HC_SAME(kCuDevicePciDevice, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
HC_SAME(kCuDevicePciDomain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
HC_SAME(kCuDeviceCopyEngines, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
HC_SAME(kCuDeviceUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
HC_SAME(kCuDeviceHostPointerUsable, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
HC_SAME(kCuDeviceHostRegister, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
HC_SAME(kCuDeviceHostPageTables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
HC_SAME(kCuDeviceVmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
HC_SAME(kCuDeviceVmmPosixFd, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
HC_SAME(kCuDeviceStreamMemOps64, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
HC_SAME(kCuDeviceIpcEvents, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
HC_SAME(kCuDeviceHostNuma, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);

HC_SAME(kCuPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT);
HC_SAME(kCuPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
HC_SAME(kCuPointerDeviceAddress, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
HC_SAME(kCuPointerHostAddress, CU_POINTER_ATTRIBUTE_HOST_POINTER);
HC_SAME(kCuPointerBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
HC_SAME(kCuPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
HC_SAME(kCuPointerLegacyIpc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
HC_SAME(kCuPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
HC_SAME(kCuPointerRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
HC_SAME(kCuPointerMapped, CU_POINTER_ATTRIBUTE_MAPPED);
HC_SAME(kCuPointerHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
HC_SAME(kCuPointerPool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
HC_SAME(kCuPointerMappingSize, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
HC_SAME(kCuPointerMappingBase, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
HC_SAME(kCuMemoryHost, CU_MEMORYTYPE_HOST);
HC_SAME(kCuMemoryDevice, CU_MEMORYTYPE_DEVICE);

HC_SAME(kCuLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
HC_SAME(kCuLocationHost, CU_MEM_LOCATION_TYPE_HOST);
HC_SAME(kCuSourceInStream, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
HC_SAME(kCuSourceDuringCall, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
HC_SAME(kCuSourceAnyTime, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
HC_SAME(kCuHandlePosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
HC_SAME(kCuAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
HC_SAME(kCuGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
HC_SAME(kCuAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
HC_SAME(kCuWaitAtLeast, CU_STREAM_WAIT_VALUE_GEQ);
HC_SAME(kCuCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);

HC_SAME(sizeof(CuUuid), sizeof(CUuuid));
HC_SAME(sizeof(CuIpcMemHandle), CU_IPC_HANDLE_SIZE);
HC_SAME(sizeof(CuIpcEventHandle), sizeof(CUipcEventHandle));
HC_SAME(sizeof(CuMemLocation), sizeof(CUmemLocation));
HC_SAME(offsetof(CuMemLocation, id), offsetof(CUmemLocation, id));
HC_SAME(sizeof(CuMemcpyAttributes), sizeof(CUmemcpyAttributes));
HC_SAME(offsetof(CuMemcpyAttributes, source_hint), offsetof(CUmemcpyAttributes, srcLocHint));
HC_SAME(offsetof(CuMemcpyAttributes, target_hint), offsetof(CUmemcpyAttributes, dstLocHint));
HC_SAME(offsetof(CuMemcpyAttributes, flags), offsetof(CUmemcpyAttributes, flags));
HC_SAME(sizeof(CuMemProperties), sizeof(CUmemAllocationProp));
HC_SAME(offsetof(CuMemProperties, handle_types),
        offsetof(CUmemAllocationProp, requestedHandleTypes));
HC_SAME(offsetof(CuMemProperties, location), offsetof(CUmemAllocationProp, location));
HC_SAME(offsetof(CuMemProperties, windows_only),
        offsetof(CUmemAllocationProp, win32HandleMetaData));
HC_SAME(offsetof(CuMemProperties, compression), offsetof(CUmemAllocationProp, allocFlags));
HC_SAME(offsetof(CuMemProperties, usage), offsetof(CUmemAllocationProp, allocFlags.usage));
HC_SAME(sizeof(CuMemAccess), sizeof(CUmemAccessDesc));
HC_SAME(offsetof(CuMemAccess, flags), offsetof(CUmemAccessDesc, flags));
#undef HC_SAME

TEST_CASE("the declarations of the driver's ABI are those of the toolkit's header") {
  SUCCEED("compared by the compiler with version " << CUDA_VERSION);
}

}  // namespace
}  // namespace hc

#else

TEST_CASE("the declarations of the driver's ABI are those of the toolkit's header") {
  SUCCEED("no toolkit here to compare with");
}

#endif
