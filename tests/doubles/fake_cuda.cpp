// SPDX-License-Identifier: Apache-2.0
// fake_cuda: the entry points of the stand-in libcuda.so.1, written against the documented
// contract of the driver API.
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "fake_device.h"
#include "fake_private.h"

using hc::fake::FakeDevice;

namespace {

// No version of the real driver, so that whoever prints it knows.
constexpr int kDriverVersion = 12'999;

FakeDevice& device() { return FakeDevice::instance(); }

// A context is its device's number plus one, as a handle.
thread_local std::vector<void*> current_contexts;

int device_count() { return static_cast<int>(device().plan.setting("devices", 1)); }

bool has_context() { return !current_contexts.empty() && current_contexts.back() != nullptr; }

// Of calls that need a current context.
int enter_context(const char* name) {
  const int answer = device().enter(name);
  return answer != 0 ? answer : has_context() ? 0 : hc::fake::kInvalidContext;
}

struct Entry {
  const char* base;
  int since;
  void* function;
};

}  // namespace

HC_FAKE_EXPORT int cuInit(unsigned flags) {
  const int injected = device().plan.on_call("cuInit");
  if (injected != 0) return injected;
  return flags == 0 ? device().start() : hc::fake::kInvalidValue;
}

HC_FAKE_EXPORT int cuDriverGetVersion(int* version) {
  const int injected = device().plan.on_call("cuDriverGetVersion");
  if (injected != 0) return injected;
  *version = kDriverVersion;
  return 0;
}

HC_FAKE_EXPORT int cuGetErrorName(int answer, const char** name) {
  const int injected = device().plan.on_call("cuGetErrorName");
  if (injected != 0) return injected;
  switch (answer) {
    case 0: *name = "CUDA_SUCCESS"; return 0;
    case 1: *name = "CUDA_ERROR_INVALID_VALUE"; return 0;
    case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
    case 201: *name = "CUDA_ERROR_INVALID_CONTEXT"; return 0;
    case 400: *name = "CUDA_ERROR_INVALID_HANDLE"; return 0;
    case 600: *name = "CUDA_ERROR_NOT_READY"; return 0;
    case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
    case 719: *name = "CUDA_ERROR_LAUNCH_FAILED"; return 0;
    default: *name = nullptr; return hc::fake::kInvalidValue;
  }
}

HC_FAKE_EXPORT int cuDeviceGetCount(int* count) {
  const int answer = device().enter("cuDeviceGetCount");
  if (answer != 0) return answer;
  *count = device_count();
  return 0;
}

HC_FAKE_EXPORT int cuDeviceGet(int* out, int ordinal) {
  const int answer = device().enter("cuDeviceGet");
  if (answer != 0) return answer;
  if (ordinal < 0 || ordinal >= device_count()) return hc::fake::kInvalidDevice;
  *out = ordinal;
  return 0;
}

HC_FAKE_EXPORT int cuDevicePrimaryCtxRetain(void** context, int of) {
  const int answer = device().enter("cuDevicePrimaryCtxRetain");
  if (answer != 0) return answer;
  if (of < 0 || of >= device_count()) return hc::fake::kInvalidDevice;
  *context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(of) + 1);
  device().add_retain(1);
  return 0;
}

HC_FAKE_EXPORT int cuDevicePrimaryCtxRelease_v2(int of) {
  const int answer = device().enter("cuDevicePrimaryCtxRelease");
  if (answer != 0) return answer;
  if (of < 0 || of >= device_count()) return hc::fake::kInvalidDevice;
  if (device().count("retains") == 0) return hc::fake::kInvalidContext;
  device().add_retain(-1);
  return 0;
}

HC_FAKE_EXPORT int cuCtxPushCurrent_v2(void* context) {
  const int answer = device().enter("cuCtxPushCurrent");
  if (answer != 0) return answer;
  if (context == nullptr || device().count("retains") == 0) return hc::fake::kInvalidContext;
  current_contexts.push_back(context);
  return 0;
}

HC_FAKE_EXPORT int cuCtxPopCurrent_v2(void** context) {
  const int answer = device().enter("cuCtxPopCurrent");
  if (answer != 0) return answer;
  if (!has_context()) return hc::fake::kInvalidContext;
  *context = current_contexts.back();
  current_contexts.pop_back();
  return 0;
}

HC_FAKE_EXPORT int cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  const int answer = enter_context("cuCtxGetStreamPriorityRange");
  if (answer != 0) return answer;
  *lowest = 0;
  *highest = -5;
  return 0;
}

// Any priority is taken: the real one clamps it too.
HC_FAKE_EXPORT int cuStreamCreateWithPriority(void** stream, unsigned flags, int /*priority*/) {
  const int answer = enter_context("cuStreamCreateWithPriority");
  if (answer != 0) return answer;
  if (stream == nullptr || flags > 1) return hc::fake::kInvalidValue;
  return device().open_stream(stream);
}

HC_FAKE_EXPORT int cuStreamDestroy_v2(void* stream) {
  const int answer = enter_context("cuStreamDestroy");
  return answer != 0 ? answer : device().close_stream(stream);
}

HC_FAKE_EXPORT int cuStreamQuery(void* stream) {
  const int answer = enter_context("cuStreamQuery");
  if (answer != 0) return answer;
  const auto found = device().stream_of(stream);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  return found->is_idle() ? 0 : hc::fake::kNotReady;
}

HC_FAKE_EXPORT int cuEventCreate(void** event, unsigned /*flags*/) {
  const int answer = enter_context("cuEventCreate");
  return answer != 0 ? answer : device().open_event(event);
}

HC_FAKE_EXPORT int cuEventDestroy_v2(void* event) {
  const int answer = enter_context("cuEventDestroy");
  return answer != 0 ? answer : device().close_event(event);
}

HC_FAKE_EXPORT int cuEventRecord(void* event, void* stream) {
  const int answer = enter_context("cuEventRecord");
  if (answer != 0) return answer;
  const auto found = device().stream_of(stream);
  return found == nullptr ? int{hc::fake::kInvalidHandle} : device().record(event, found);
}

HC_FAKE_EXPORT int cuEventQuery(void* event) {
  const int answer = enter_context("cuEventQuery");
  return answer != 0 ? answer : device().query(event);
}

HC_FAKE_EXPORT int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
  const int answer = enter_context("cuMemAlloc");
  if (answer != 0) return answer;
  std::uint64_t made = 0;
  const int allocated = device().allocate(true, bytes, &made);
  if (allocated == 0) *address = made;
  return allocated;
}

HC_FAKE_EXPORT int cuMemFree_v2(unsigned long long address) {
  const int answer = enter_context("cuMemFree");
  return answer != 0 ? answer : device().release(true, address);
}

HC_FAKE_EXPORT int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  const int answer = enter_context("cuMemHostAlloc");
  if (answer != 0) return answer;
  std::uint64_t made = 0;
  const int allocated = device().allocate(false, bytes, &made);
  if (allocated == 0) *memory = reinterpret_cast<void*>(made);
  return allocated;
}

HC_FAKE_EXPORT int cuMemFreeHost(void* memory) {
  const int answer = enter_context("cuMemFreeHost");
  return answer != 0 ? answer : device().release(false, reinterpret_cast<std::uint64_t>(memory));
}

// From pinned memory the bytes are read at their turn; from other memory before the call returns.
HC_FAKE_EXPORT int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes,
                                        void* stream) {
  const int answer = enter_context("cuMemcpyHtoDAsync");
  if (answer != 0) return answer;
  const auto found = device().stream_of(stream);
  void* const target = device().host_of(to, bytes);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  if (target == nullptr) return hc::fake::kInvalidValue;
  if (device().is_pinned(from, bytes)) {
    found->push([=] { std::memcpy(target, from, bytes); });
    return 0;
  }
  const auto* const begin = static_cast<const char*>(from);
  found->push([target, staged = std::vector<char>(begin, begin + bytes)] {
    std::memcpy(target, staged.data(), staged.size());
  });
  return 0;
}

// To pinned memory the bytes are written at their turn; to other memory before the call returns.
HC_FAKE_EXPORT int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes,
                                        void* stream) {
  const int answer = enter_context("cuMemcpyDtoHAsync");
  if (answer != 0) return answer;
  const auto found = device().stream_of(stream);
  const void* const source = device().host_of(from, bytes);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  if (source == nullptr) return hc::fake::kInvalidValue;
  found->push([=] { std::memcpy(to, source, bytes); });
  if (!device().is_pinned(to, bytes)) {
    found->wait_idle();
  }
  return 0;
}

HC_FAKE_EXPORT int cuGetProcAddress_v2(const char* base, void** function, int version,
                                       std::uint64_t /*flags*/, int* status);

namespace {

template <typename Function>
Entry entry(const char* base, int since, Function* function) {
  return {base, since, reinterpret_cast<void*>(function)};
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      entry("cuInit", 2000, cuInit),
      entry("cuDriverGetVersion", 2020, cuDriverGetVersion),
      entry("cuGetErrorName", 6000, cuGetErrorName),
      entry("cuDeviceGetCount", 2000, cuDeviceGetCount),
      entry("cuDeviceGet", 2000, cuDeviceGet),
      entry("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain),
      entry("cuDevicePrimaryCtxRelease", 11000, cuDevicePrimaryCtxRelease_v2),
      entry("cuCtxPushCurrent", 4000, cuCtxPushCurrent_v2),
      entry("cuCtxPopCurrent", 4000, cuCtxPopCurrent_v2),
      entry("cuCtxGetStreamPriorityRange", 5050, cuCtxGetStreamPriorityRange),
      entry("cuStreamCreateWithPriority", 5050, cuStreamCreateWithPriority),
      entry("cuStreamDestroy", 4000, cuStreamDestroy_v2),
      entry("cuStreamQuery", 2000, cuStreamQuery),
      entry("cuEventCreate", 2000, cuEventCreate),
      entry("cuEventDestroy", 4000, cuEventDestroy_v2),
      entry("cuEventRecord", 2000, cuEventRecord),
      entry("cuEventQuery", 2000, cuEventQuery),
      entry("cuMemAlloc", 3020, cuMemAlloc_v2),
      entry("cuMemFree", 3020, cuMemFree_v2),
      entry("cuMemHostAlloc", 2020, cuMemHostAlloc),
      entry("cuMemFreeHost", 2000, cuMemFreeHost),
      entry("cuMemcpyHtoDAsync", 3020, cuMemcpyHtoDAsync_v2),
      entry("cuMemcpyDtoHAsync", 3020, cuMemcpyDtoHAsync_v2),
  };
  return all;
}

}  // namespace

// The signature that CUDA had at `version`. Older ones of the same name do not exist here, and one
// that is asked for by a version that this driver does not have yet is an error.
HC_FAKE_EXPORT int cuGetProcAddress_v2(const char* base, void** function, int version,
                                       std::uint64_t /*flags*/, int* status) {
  const int injected = device().plan.on_call("cuGetProcAddress");
  if (injected != 0) return injected;
  if (version > kDriverVersion) return hc::fake::kInvalidValue;
  *function = nullptr;
  for (const Entry& known : entries()) {
    if (std::strcmp(known.base, base) == 0 && version >= known.since) {
      *function = known.function;
      *status = 0;
      return 0;
    }
  }
  *status = 1;
  return hc::fake::kNotFound;
}

HC_FAKE_EXPORT int hc_fake_cuda_enqueue(void* stream, void (*work)(void*), void* argument) {
  const auto found = device().stream_of(stream);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  found->push([work, argument] { work(argument); });
  return 0;
}

HC_FAKE_EXPORT void* hc_fake_cuda_host(void* address, std::size_t bytes) {
  return device().host_of(reinterpret_cast<std::uint64_t>(address), bytes);
}

HC_FAKE_EXPORT int hc_fake_cuda_current(void) {
  return has_context() ? static_cast<int>(reinterpret_cast<std::uintptr_t>(
                             current_contexts.back())) - 1
                       : -1;
}

HC_FAKE_EXPORT long hc_fake_cuda_count(const char* what) { return device().count(what); }
