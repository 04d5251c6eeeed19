// SPDX-License-Identifier: Apache-2.0
// fake_cuda_memory: entry points about memory of the device and pinned memory of the host.
#include <cstdint>
#include <cstring>

#include "fake_device.h"
#include "fake_private.h"

using hc::fake::FakeDevice;
using hc::fake::FakePinned;
using hc::fake::FakeRange;

namespace {

FakeDevice& device() {
  return FakeDevice::instance();
}

int current_on_machine() {
  return device().on_machine(FakeDevice::current_ordinal());
}

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

template <typename Value>
int give(void* data, Value value) {
  std::memcpy(data, &value, sizeof value);
  return 0;
}

// Attributes that drivers before 12.0 do not have.
bool knows_mappings() { return device().plan.setting("version", 12'999) >= 12'000; }

// Stands for the one pool of each device.
char pool = 0;

int device_attribute(void* data, int kind, std::uint64_t address, const FakeRange& range) {
  const bool is_mapped = range.kind == FakeRange::Kind::mapped;
  int on_machine = 0;
  int handle_types = 0;
  switch (kind) {
    case 1:
      return give(data, is_mapped ? nullptr : range.context);
    case 2:
      return give(data, 2U);
    case 3:
      return give(data, address);
    case 7:
      return give(data, range.buffer_id);
    case 8:
      return give(data, 0);
    case 9:
      return give(data, range.ordinal);
    case 10:
      return give(data, range.kind == FakeRange::Kind::allocated ? 1 : 0);
    case 11:
      return give(data, range.area_begin);
    case 12:
      return give(data, range.area_bytes);
    case 13:
      return give(data, 1);
    case 14:
      device().vmm.properties(range.handle, &on_machine, &handle_types);
      return give(data, static_cast<std::uint64_t>(handle_types));
    case 17:
      return give(data, range.kind == FakeRange::Kind::pooled ? &pool : nullptr);
    case 18:
      return knows_mappings() ? give(data, range.bytes) : hc::fake::kInvalidValue;
    case 19:
      return knows_mappings() ? give(data, range.begin) : hc::fake::kInvalidValue;
    default:
      return hc::fake::kInvalidValue;
  }
}

int host_attribute(void* data, int kind, std::uint64_t address, const FakePinned& pinned) {
  const std::uint64_t seen = device().host.device_view(pinned, address & ~hc::fake::kAliasBit);
  switch (kind) {
    case 1:
      return give(data, pinned.context);
    case 2:
      return give(data, 1U);
    case 3:
      return give(data, seen);
    case 4:
      return give(data, address & ~hc::fake::kAliasBit);
    case 7:
      return give(data, pinned.buffer_id);
    case 8:
      return give(data, 0);
    case 9:
      return give(data, pinned.ordinal);
    case 10:
      return give(data, 0);
    case 11:
      return give(data, pinned.begin);
    case 12:
      return give(data, pinned.bytes);
    case 13:
      return give(data, 1);
    case 14:
      return give(data, std::uint64_t{0});
    case 17:
      return give(data, static_cast<void*>(nullptr));
    default:
      return hc::fake::kInvalidValue;
  }
}

}  // namespace

HC_FAKE_EXPORT int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const int answer = device().enter_context("cuMemGetInfo");
  if (answer != 0) return answer;
  *total = device().memory.total();
  const auto context = static_cast<std::size_t>(device().plan.setting("context_bytes", 0));
  *free = *total - device().memory.used(current_on_machine()) - context;
  return 0;
}

HC_FAKE_EXPORT int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
  const int answer = device().enter_context("cuMemAlloc");
  if (answer != 0) return answer;
  std::uint64_t made = 0;
  const int allocated = device().memory.allocate(
      FakeDevice::new_range(), bytes, current_on_machine(), address == nullptr ? nullptr : &made);
  if (allocated == 0) *address = made;
  return allocated;
}

HC_FAKE_EXPORT int cuMemFree_v2(unsigned long long address) {
  const int answer = device().enter_context("cuMemFree");
  if (answer != 0) return answer;
  const auto range = device().memory.find(address);
  if (!range || range->begin != address || range->kind != FakeRange::Kind::allocated) {
    return hc::fake::kInvalidValue;
  }
  device().streams.wait_for_all();
  device().memory.release(address);
  return 0;
}

// Done before the call returns, and a free waits for all streams: a stronger order than the real.
HC_FAKE_EXPORT int cuMemAllocAsync(unsigned long long* address, std::size_t bytes, void* stream) {
  const int answer = device().enter_context("cuMemAllocAsync");
  if (answer != 0) return answer;
  if (device().streams.find(stream) == nullptr) return hc::fake::kInvalidHandle;
  FakeRange range = FakeDevice::new_range();
  range.kind = FakeRange::Kind::pooled;
  std::uint64_t made = 0;
  const int allocated = device().memory.allocate(range, bytes, current_on_machine(),
                                                 address == nullptr ? nullptr : &made);
  if (allocated == 0) *address = made;
  return allocated;
}

HC_FAKE_EXPORT int cuMemFreeAsync(unsigned long long address, void* stream) {
  const int answer = device().enter_context("cuMemFreeAsync");
  if (answer != 0) return answer;
  const auto range = device().memory.find(address);
  if (device().streams.find(stream) == nullptr) return hc::fake::kInvalidHandle;
  if (!range || range->begin != address || range->kind != FakeRange::Kind::pooled) {
    return hc::fake::kInvalidValue;
  }
  device().streams.wait_for_all();
  device().memory.release(address);
  return 0;
}

HC_FAKE_EXPORT int cuMemGetAddressRange_v2(unsigned long long* base, std::size_t* bytes,
                                           unsigned long long address) {
  const int answer = device().enter_context("cuMemGetAddressRange");
  if (answer != 0) return answer;
  const auto range = device().memory.find(address);
  if (!range) return hc::fake::kNotFound;
  if (base != nullptr) *base = range->begin;
  if (bytes != nullptr) *bytes = range->bytes;
  return 0;
}

HC_FAKE_EXPORT int cuPointerGetAttribute(void* data, int kind, unsigned long long address) {
  const int answer = device().enter_context("cuPointerGetAttribute");
  if (answer != 0) return answer;
  if (data == nullptr) return hc::fake::kInvalidValue;
  if (const auto range = device().memory.find(address)) {
    return device_attribute(data, kind, address, *range);
  }
  if (const auto pinned = device().host.find(address & ~hc::fake::kAliasBit)) {
    return host_attribute(data, kind, address, *pinned);
  }
  const bool is_reserved = kind == 13 && device().vmm.is_reserved(address);
  return is_reserved ? give(data, 0) : hc::fake::kInvalidValue;
}

HC_FAKE_EXPORT int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  const int answer = device().enter_context("cuMemHostAlloc");
  if (answer != 0) return answer;
  return device().host.allocate(device().new_pinned(flags), bytes, memory);
}

HC_FAKE_EXPORT int cuMemFreeHost(void* memory) {
  const int answer = device().enter_context("cuMemFreeHost");
  if (answer != 0) return answer;
  if (!device().host.is_allocated(memory)) return hc::fake::kInvalidValue;
  device().streams.wait_for_all();
  return device().host.release(memory);
}

HC_FAKE_EXPORT int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  const int answer = device().enter_context("cuMemHostRegister");
  if (answer != 0) return answer;
  FakePinned pinned = device().new_pinned(flags);
  pinned.begin = address_of(memory);
  pinned.bytes = bytes;
  return device().host.enlist(pinned);
}

HC_FAKE_EXPORT int cuMemHostUnregister(void* memory) {
  const int answer = device().enter_context("cuMemHostUnregister");
  if (answer != 0) return answer;
  if (!device().host.is_registered(memory)) return hc::fake::kNotRegistered;
  device().streams.wait_for_all();
  return device().host.withdraw(memory);
}

// By the header, registered memory has one only if it was registered with DEVICEMAP.
HC_FAKE_EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long* address, void* memory,
                                                unsigned flags) {
  const int answer = device().enter_context("cuMemHostGetDevicePointer");
  if (answer != 0) return answer;
  const auto pinned = device().host.find(address_of(memory));
  if (address == nullptr || flags != 0 || !pinned ||
      (!pinned->is_allocated && (pinned->flags & 2U) == 0)) {
    return hc::fake::kInvalidValue;
  }
  *address = device().host.device_view(*pinned, address_of(memory));
  return 0;
}
