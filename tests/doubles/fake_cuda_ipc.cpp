// SPDX-License-Identifier: Apache-2.0
// fake_cuda_ipc: entry points that share memory and events with other processes.
#include <cstring>

#include "fake_device.h"
#include "fake_private.h"

using hc::fake::FakeDevice;
using hc::fake::FakeIpcHandle;

namespace {

FakeDevice& device() {
  return FakeDevice::instance();
}

// CUipcMemHandle and CUipcEventHandle, passed by value.
struct Bytes {
  char bytes[64];
};

int enter_ipc(const char* name) {
  const int answer = device().enter_context(name);
  if (answer != 0) return answer;
  return device().plan.setting("no_ipc", 0) == 0 ? 0 : hc::fake::kNotSupported;
}

FakeIpcHandle read_handle(const Bytes& bytes) {
  FakeIpcHandle handle;
  std::memcpy(&handle, bytes.bytes, sizeof handle);
  return handle;
}

void write_handle(const FakeIpcHandle& handle, Bytes* bytes) {
  std::memcpy(bytes->bytes, &handle, sizeof handle);
}

}  // namespace

HC_FAKE_EXPORT int cuIpcGetMemHandle(Bytes* out, unsigned long long address) {
  const int answer = enter_ipc("cuIpcGetMemHandle");
  if (answer != 0) return answer;
  if (out == nullptr) return hc::fake::kInvalidValue;
  FakeIpcHandle handle;
  const int found = device().ipc.get_handle(address, &handle);
  if (found == 0) write_handle(handle, out);
  return found;
}

HC_FAKE_EXPORT int cuIpcOpenMemHandle_v2(unsigned long long* address, Bytes handle,
                                         unsigned flags) {
  const int answer = enter_ipc("cuIpcOpenMemHandle");
  if (answer != 0) return answer;
  if (address == nullptr || flags != 1) return hc::fake::kInvalidValue;
  std::uint64_t opened = 0;
  const auto at = FakeDevice::new_range();
  const int found =
      device().ipc.open(read_handle(handle), at, device().on_machine(at.ordinal), &opened);
  if (found == 0) *address = opened;
  return found;
}

HC_FAKE_EXPORT int cuIpcCloseMemHandle(unsigned long long address) {
  const int answer = enter_ipc("cuIpcCloseMemHandle");
  if (answer != 0) return answer;
  if (!device().ipc.is_open(address)) return hc::fake::kInvalidValue;
  if (device().ipc.close(address)) {
    device().streams.wait_for_all();
    device().memory.drop_import(address);
  }
  return 0;
}

HC_FAKE_EXPORT int cuIpcGetEventHandle(Bytes* out, void* event) {
  const int answer = enter_ipc("cuIpcGetEventHandle");
  if (answer != 0) return answer;
  if (out == nullptr) return hc::fake::kInvalidValue;
  FakeIpcHandle handle;
  const int found = device().events.get_handle(event, &handle);
  if (found == 0) write_handle(handle, out);
  return found;
}

HC_FAKE_EXPORT int cuIpcOpenEventHandle(void** event, Bytes handle) {
  const int answer = enter_ipc("cuIpcOpenEventHandle");
  return answer != 0 ? answer : device().events.open(read_handle(handle), event);
}
