// SPDX-License-Identifier: Apache-2.0
// fake_cuda_device: entry points about devices and their primary contexts.
#include <cstdio>
#include <cstring>
#include <string>

#include "fake_device.h"
#include "fake_private.h"

using hc::fake::FakeDevice;

namespace {

FakeDevice& device() {
  return FakeDevice::instance();
}

constexpr int kFirstBus = 0x10;

int enter_device(const char* name, int of) {
  const int answer = device().enter(name);
  return answer != 0 ? answer : device().has_device(of) ? 0 : hc::fake::kInvalidDevice;
}

int attribute(int kind, int of) {
  const auto& plan = device().plan;
  const int has_vmm = plan.setting("no_vmm", 0) == 0 ? 1 : 0;
  switch (kind) {
    case 33:
      return kFirstBus + device().on_machine(of);  // PCI bus
    case 40:
      return 2;  // copy engines
    case 41:
      return 1;  // unified addressing
    case 75:
      return 9;  // compute capability
    case 78:
      return 1;  // stream priorities
    case 91:
      return device().host.pointer_is_usable() ? 1 : 0;  // registered memory
    case 99:
      return 1;  // registration
    case 102:
      return has_vmm;  // cuMemCreate
    case 103:
      return has_vmm * (plan.setting("no_posix_fd", 0) == 0 ? 1 : 0);  // its descriptors
    case 122:
      return 1;  // 64-bit values
    case 125:
      return plan.setting("no_ipc", 0) == 0 ? 1 : 0;  // IPC
    case 134:
      return static_cast<int>(plan.setting("host_numa@" + std::to_string(of), 0));
    default:
      return 0;
  }
}

}  // namespace

HC_FAKE_EXPORT int cuDeviceGetCount(int* count) {
  const int answer = device().enter("cuDeviceGetCount");
  if (answer != 0) return answer;
  *count = device().device_count();
  return 0;
}

HC_FAKE_EXPORT int cuDeviceGet(int* out, int ordinal) {
  const int answer = enter_device("cuDeviceGet", ordinal);
  if (answer == 0) *out = ordinal;
  return answer;
}

HC_FAKE_EXPORT int cuDeviceGetAttribute(int* value, int kind, int of) {
  const int answer = enter_device("cuDeviceGetAttribute", of);
  if (answer != 0) return answer;
  if (value == nullptr || kind < 1 || kind > 147) return hc::fake::kInvalidValue;
  *value = attribute(kind, of);
  return 0;
}

HC_FAKE_EXPORT int cuDeviceGetName(char* name, int length, int of) {
  const int answer = enter_device("cuDeviceGetName", of);
  if (answer != 0) return answer;
  if (name == nullptr || length < 1) return hc::fake::kInvalidValue;
  std::snprintf(name, static_cast<std::size_t>(length), "hicached test double");
  return 0;
}

HC_FAKE_EXPORT int cuDeviceGetUuid_v2(unsigned char* uuid, int of) {
  const int answer = enter_device("cuDeviceGetUuid", of);
  if (answer != 0) return answer;
  char text[32];
  std::snprintf(text, sizeof text, "hc-fake-gpu-%04d", device().on_machine(of) % 10'000);
  std::memcpy(uuid, text, 16);
  return 0;
}

HC_FAKE_EXPORT int cuDeviceGetPCIBusId(char* id, int length, int of) {
  const int answer = enter_device("cuDeviceGetPCIBusId", of);
  if (answer != 0) return answer;
  char text[32];
  const int bytes = std::snprintf(text, sizeof text, "0000:%02X:00.0",
                                  static_cast<unsigned>(kFirstBus + device().on_machine(of)));
  if (id == nullptr || length <= bytes) return hc::fake::kInvalidValue;
  std::memcpy(id, text, static_cast<std::size_t>(bytes) + 1);
  return 0;
}

HC_FAKE_EXPORT int cuDevicePrimaryCtxRetain(void** context, int of) {
  const int answer = device().enter("cuDevicePrimaryCtxRetain");
  if (answer != 0) return answer;
  return device().retain(of, context) ? 0 : hc::fake::kInvalidDevice;
}

HC_FAKE_EXPORT int cuDevicePrimaryCtxRelease_v2(int of) {
  const int answer = enter_device("cuDevicePrimaryCtxRelease", of);
  if (answer != 0) return answer;
  return device().release(of) ? 0 : hc::fake::kInvalidContext;
}

HC_FAKE_EXPORT int cuDevicePrimaryCtxGetState(int of, unsigned* flags, int* active) {
  const int answer = enter_device("cuDevicePrimaryCtxGetState", of);
  if (answer != 0) return answer;
  *flags = 0;
  *active = device().is_active(of) ? 1 : 0;
  return 0;
}

HC_FAKE_EXPORT int cuCtxPushCurrent_v2(void* context) {
  const int answer = device().enter("cuCtxPushCurrent");
  return answer != 0 ? answer : device().push(context);
}

HC_FAKE_EXPORT int cuCtxPopCurrent_v2(void** context) {
  const int answer = device().enter("cuCtxPopCurrent");
  return answer != 0 ? answer : device().pop(context);
}

// Without a current context, a null pointer and a success.
HC_FAKE_EXPORT int cuCtxGetCurrent(void** context) {
  const int answer = device().enter("cuCtxGetCurrent");
  if (answer == 0) *context = FakeDevice::current();
  return answer;
}

HC_FAKE_EXPORT int cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  const int answer = device().enter_context("cuCtxGetStreamPriorityRange");
  if (answer != 0) return answer;
  *lowest = 0;
  *highest = -5;
  return 0;
}
