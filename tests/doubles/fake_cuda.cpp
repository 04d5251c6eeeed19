// SPDX-License-Identifier: Apache-2.0
// fake_cuda: start, version and lookup of the stand-in libcuda.so.1, and what it gives to tests and
// to the stand-in NCCL. The entry points lie in fake_cuda_*.cpp by what they are about; all are
// written against the contract that the toolkit's header states.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>

#include "fake_device.h"
#include "fake_private.h"

using hc::fake::FakeDevice;

namespace {

FakeDevice& device() {
  return FakeDevice::instance();
}

// No version of the real driver, so that whoever prints it knows.
int driver_version() {
  return static_cast<int>(device().plan.setting("version", 12'999));
}

// Of one name, the newer signature first.
struct Entry {
  const char* base;
  int since;
  const char* symbol;
};
constexpr Entry kEntries[] = {
    {"cuInit", 2000, "cuInit"},
    {"cuDriverGetVersion", 2020, "cuDriverGetVersion"},
    {"cuGetErrorName", 6000, "cuGetErrorName"},
    {"cuDeviceGetCount", 2000, "cuDeviceGetCount"},
    {"cuDeviceGet", 2000, "cuDeviceGet"},
    {"cuDeviceGetAttribute", 2000, "cuDeviceGetAttribute"},
    {"cuDeviceGetName", 2000, "cuDeviceGetName"},
    {"cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"},
    {"cuDeviceGetPCIBusId", 4010, "cuDeviceGetPCIBusId"},
    {"cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain"},
    {"cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2"},
    {"cuDevicePrimaryCtxGetState", 7000, "cuDevicePrimaryCtxGetState"},
    {"cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2"},
    {"cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2"},
    {"cuCtxGetCurrent", 4000, "cuCtxGetCurrent"},
    {"cuCtxGetStreamPriorityRange", 5050, "cuCtxGetStreamPriorityRange"},
    {"cuStreamCreateWithPriority", 5050, "cuStreamCreateWithPriority"},
    {"cuStreamDestroy", 4000, "cuStreamDestroy_v2"},
    {"cuStreamQuery", 2000, "cuStreamQuery"},
    {"cuStreamWaitEvent", 3020, "cuStreamWaitEvent"},
    {"cuStreamIsCapturing", 10000, "cuStreamIsCapturing"},
    {"cuEventCreate", 2000, "cuEventCreate"},
    {"cuEventDestroy", 4000, "cuEventDestroy_v2"},
    {"cuEventRecord", 2000, "cuEventRecord"},
    {"cuEventQuery", 2000, "cuEventQuery"},
    {"cuMemGetInfo", 3020, "cuMemGetInfo_v2"},
    {"cuMemAlloc", 3020, "cuMemAlloc_v2"},
    {"cuMemFree", 3020, "cuMemFree_v2"},
    {"cuMemGetAddressRange", 3020, "cuMemGetAddressRange_v2"},
    {"cuPointerGetAttribute", 4000, "cuPointerGetAttribute"},
    {"cuMemHostAlloc", 2020, "cuMemHostAlloc"},
    {"cuMemFreeHost", 2000, "cuMemFreeHost"},
    {"cuMemHostRegister", 6050, "cuMemHostRegister_v2"},
    {"cuMemHostUnregister", 4000, "cuMemHostUnregister"},
    {"cuMemHostGetDevicePointer", 3020, "cuMemHostGetDevicePointer_v2"},
    {"cuIpcGetMemHandle", 4010, "cuIpcGetMemHandle"},
    {"cuIpcOpenMemHandle", 11000, "cuIpcOpenMemHandle_v2"},
    {"cuIpcCloseMemHandle", 4010, "cuIpcCloseMemHandle"},
    {"cuIpcGetEventHandle", 4010, "cuIpcGetEventHandle"},
    {"cuIpcOpenEventHandle", 4010, "cuIpcOpenEventHandle"},
    {"cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2"},
    {"cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2"},
    {"cuMemsetD8Async", 3020, "cuMemsetD8Async"},
    {"cuMemcpyBatchAsync", 13000, "cuMemcpyBatchAsync_v2"},
    {"cuMemcpyBatchAsync", 12080, "cuMemcpyBatchAsync"},
    {"cuStreamWriteValue64", 11070, "cuStreamWriteValue64_v2"},
    {"cuStreamWaitValue64", 11070, "cuStreamWaitValue64_v2"},
    {"cuMemAllocAsync", 11020, "cuMemAllocAsync"},
    {"cuMemFreeAsync", 11020, "cuMemFreeAsync"},
    {"cuMemGetAllocationGranularity", 10020, "cuMemGetAllocationGranularity"},
    {"cuMemCreate", 10020, "cuMemCreate"},
    {"cuMemRelease", 10020, "cuMemRelease"},
    {"cuMemRetainAllocationHandle", 11000, "cuMemRetainAllocationHandle"},
    {"cuMemGetAllocationPropertiesFromHandle", 10020, "cuMemGetAllocationPropertiesFromHandle"},
    {"cuMemExportToShareableHandle", 10020, "cuMemExportToShareableHandle"},
    {"cuMemImportFromShareableHandle", 10020, "cuMemImportFromShareableHandle"},
    {"cuMemAddressReserve", 10020, "cuMemAddressReserve"},
    {"cuMemAddressFree", 10020, "cuMemAddressFree"},
    {"cuMemMap", 10020, "cuMemMap"},
    {"cuMemUnmap", 10020, "cuMemUnmap"},
    {"cuMemSetAccess", 10020, "cuMemSetAccess"},
};

struct AnswerName {
  int answer;
  const char* name;
};
constexpr AnswerName kAnswerNames[] = {
    {0, "CUDA_SUCCESS"},
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {205, "CUDA_ERROR_MAP_FAILED"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {800, "CUDA_ERROR_NOT_PERMITTED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {999, "CUDA_ERROR_UNKNOWN"},
};

// The symbol as this very library has it, whatever other libraries are loaded.
void* own_symbol(const char* name) {
  static const char anchor = 0;
  Dl_info about = {};
  if (::dladdr(&anchor, &about) == 0) {
    return nullptr;
  }
  void* const library = ::dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

}  // namespace

HC_FAKE_EXPORT int cuInit(unsigned flags) {
  const int injected = device().plan.on_call("cuInit");
  if (injected != 0) return injected;
  return flags == 0 ? device().start() : hc::fake::kInvalidValue;
}

HC_FAKE_EXPORT int cuDriverGetVersion(int* version) {
  const int injected = device().plan.on_call("cuDriverGetVersion");
  if (injected != 0) return injected;
  *version = driver_version();
  return 0;
}

HC_FAKE_EXPORT int cuGetErrorName(int answer, const char** name) {
  const int injected = device().plan.on_call("cuGetErrorName");
  if (injected != 0) return injected;
  *name = nullptr;
  for (const AnswerName& known : kAnswerNames) {
    if (known.answer == answer) *name = known.name;
  }
  return *name != nullptr ? 0 : hc::fake::kInvalidValue;
}

// The signature that CUDA had at `version`. Older ones of the same name do not exist here, and one
// that is asked for by a version that this driver does not have yet is an error.
HC_FAKE_EXPORT int cuGetProcAddress_v2(const char* base, void** function, int version,
                                       std::uint64_t /*flags*/, int* status) {
  const int injected = device().plan.on_call("cuGetProcAddress");
  if (injected != 0) return injected;
  if (version > driver_version()) return hc::fake::kInvalidValue;
  *function = nullptr;
  for (const Entry& known : kEntries) {
    if (std::strcmp(known.base, base) == 0 && version >= known.since) {
      *function = own_symbol(known.symbol);
      *status = 0;
      return 0;
    }
  }
  *status = 1;
  return hc::fake::kNotFound;
}

HC_FAKE_EXPORT int hc_fake_cuda_enqueue(void* stream, void (*work)(void*), void* argument) {
  const auto found = device().streams.find(stream);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  hc::fake::FakeWork call;
  call.call = work;
  call.argument = argument;
  found->push(call);
  return 0;
}

HC_FAKE_EXPORT void* hc_fake_cuda_host(void* address, std::size_t bytes) {
  return device().memory.host_of(reinterpret_cast<std::uint64_t>(address), bytes);
}

HC_FAKE_EXPORT int hc_fake_cuda_current(void) {
  return FakeDevice::current_ordinal();
}

HC_FAKE_EXPORT long hc_fake_cuda_count(const char* what) {
  return device().count(what);
}
