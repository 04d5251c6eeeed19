// SPDX-License-Identifier: Apache-2.0
// fake_cuda_vmm: entry points of virtual memory management, the memory of expandable segments.
#include <cstdint>
#include <cstring>

#include "fake_device.h"
#include "fake_private.h"

using hc::fake::FakeDevice;
using hc::fake::FakeRange;

namespace {

FakeDevice& device() {
  return FakeDevice::instance();
}

// CUmemAllocationProp and CUmemAccessDesc
struct Properties {
  int type;
  int handle_types;
  int location_type;
  int location;
  void* windows_only;
  unsigned char flags[8];
};
struct Access {
  int location_type;
  int location;
  int flags;
};

int enter_vmm(const char* name) {
  const int answer = device().enter_context(name);
  if (answer != 0) return answer;
  return device().plan.setting("no_vmm", 0) == 0 ? 0 : hc::fake::kNotSupported;
}

// Pinned memory of a device, that may leave the process as a descriptor and in no other way.
int judge(const Properties* of) {
  if (of == nullptr || of->type != 1 || of->location_type != 1) return hc::fake::kInvalidValue;
  if (!device().has_device(of->location)) return hc::fake::kInvalidDevice;
  const int may_be = device().plan.setting("no_posix_fd", 0) == 0 ? hc::fake::kPosixFd : 0;
  return (of->handle_types & ~may_be) == 0 ? 0 : hc::fake::kNotPermitted;
}

}  // namespace

HC_FAKE_EXPORT int cuMemGetAllocationGranularity(std::size_t* bytes, const Properties* of,
                                                 int option) {
  const int answer = enter_vmm("cuMemGetAllocationGranularity");
  if (answer != 0) return answer;
  if (bytes == nullptr || option < 0 || option > 1) return hc::fake::kInvalidValue;
  const int judged = judge(of);
  if (judged == 0) *bytes = hc::fake::kGranularity;
  return judged;
}

HC_FAKE_EXPORT int cuMemCreate(unsigned long long* handle, std::size_t bytes, const Properties* of,
                               unsigned long long flags) {
  const int answer = enter_vmm("cuMemCreate");
  if (answer != 0) return answer;
  if (handle == nullptr || flags != 0) return hc::fake::kInvalidValue;
  if (const int judged = judge(of); judged != 0) return judged;
  std::uint64_t made = 0;
  const int created =
      device().vmm.create(bytes, device().on_machine(of->location), of->handle_types, &made);
  if (created == 0) *handle = made;
  return created;
}

HC_FAKE_EXPORT int cuMemRelease(unsigned long long handle) {
  const int answer = enter_vmm("cuMemRelease");
  return answer != 0 ? answer : device().vmm.release(handle);
}

HC_FAKE_EXPORT int cuMemRetainAllocationHandle(unsigned long long* handle, void* address) {
  const int answer = enter_vmm("cuMemRetainAllocationHandle");
  if (answer != 0) return answer;
  std::uint64_t found = 0;
  const int retained = device().vmm.retain(reinterpret_cast<std::uint64_t>(address), &found);
  if (retained == 0) *handle = found;
  return retained;
}

HC_FAKE_EXPORT int cuMemGetAllocationPropertiesFromHandle(Properties* of,
                                                          unsigned long long handle) {
  const int answer = enter_vmm("cuMemGetAllocationPropertiesFromHandle");
  if (answer != 0) return answer;
  int on_machine = 0;
  Properties found = {1, 0, 1, 0, nullptr, {}};
  const int known = device().vmm.properties(handle, &on_machine, &found.handle_types);
  if (known != 0) return known;
  found.location = on_machine - device().on_machine(0);
  *of = found;
  return 0;
}

HC_FAKE_EXPORT int cuMemExportToShareableHandle(void* out, unsigned long long handle, int type,
                                                unsigned long long flags) {
  const int answer = enter_vmm("cuMemExportToShareableHandle");
  if (answer != 0) return answer;
  if (out == nullptr || type != hc::fake::kPosixFd || flags != 0) return hc::fake::kInvalidValue;
  int fd = -1;
  const int exported = device().vmm.export_fd(handle, &fd);
  if (exported == 0) std::memcpy(out, &fd, sizeof fd);
  return exported;
}

HC_FAKE_EXPORT int cuMemImportFromShareableHandle(unsigned long long* handle, void* from,
                                                  int type) {
  const int answer = enter_vmm("cuMemImportFromShareableHandle");
  if (answer != 0) return answer;
  if (handle == nullptr || type != hc::fake::kPosixFd) return hc::fake::kInvalidValue;
  std::uint64_t made = 0;
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(from));
  const int imported = device().vmm.import_fd(fd, &made);
  if (imported == 0) *handle = made;
  return imported;
}

HC_FAKE_EXPORT int cuMemAddressReserve(unsigned long long* address, std::size_t bytes,
                                       std::size_t alignment, unsigned long long /*hint*/,
                                       unsigned long long flags) {
  const int answer = enter_vmm("cuMemAddressReserve");
  if (answer != 0) return answer;
  if (address == nullptr || flags != 0) return hc::fake::kInvalidValue;
  std::uint64_t begin = 0;
  const int reserved = device().vmm.reserve(bytes, alignment, &begin);
  if (reserved == 0) *address = begin;
  return reserved;
}

HC_FAKE_EXPORT int cuMemAddressFree(unsigned long long address, std::size_t bytes) {
  const int answer = enter_vmm("cuMemAddressFree");
  return answer != 0 ? answer : device().vmm.unreserve(address, bytes);
}

HC_FAKE_EXPORT int cuMemMap(unsigned long long address, std::size_t bytes, std::size_t offset,
                            unsigned long long handle, unsigned long long flags) {
  const int answer = enter_vmm("cuMemMap");
  if (answer != 0) return answer;
  if (offset != 0 || flags != 0) return hc::fake::kInvalidValue;
  FakeRange range = FakeDevice::new_range();
  range.begin = address;
  range.bytes = bytes;
  return device().vmm.map(range, handle);
}

HC_FAKE_EXPORT int cuMemUnmap(unsigned long long address, std::size_t bytes) {
  const int answer = enter_vmm("cuMemUnmap");
  if (answer != 0) return answer;
  if (!device().vmm.are_whole(address, bytes)) return hc::fake::kInvalidValue;
  device().streams.wait_for_all();
  device().vmm.unmap(address, bytes);
  return 0;
}

HC_FAKE_EXPORT int cuMemSetAccess(unsigned long long address, std::size_t bytes,
                                  const Access* accesses, std::size_t count) {
  const int answer = enter_vmm("cuMemSetAccess");
  if (answer != 0) return answer;
  if (accesses == nullptr || count == 0 || bytes == 0) return hc::fake::kInvalidValue;
  bool is_accessible = false;
  for (const Access* access = accesses; access != accesses + count; ++access) {
    if (access->location_type != 1) return hc::fake::kInvalidValue;
    if (!device().has_device(access->location)) return hc::fake::kInvalidDevice;
    is_accessible = is_accessible || access->flags == 3;
  }
  const bool is_mapped = device().memory.set_access(address, bytes, is_accessible);
  return is_mapped ? 0 : hc::fake::kInvalidValue;
}
