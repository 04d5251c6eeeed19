// SPDX-License-Identifier: Apache-2.0
// fake_vmm: handles, reservations and mappings.
#include "fake_vmm.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "fake_answers.h"

namespace hc::fake {

namespace {

constexpr std::size_t kPage = 4096;

bool is_granular(std::uint64_t value) {
  return value % kGranularity == 0;
}

}  // namespace

std::uint64_t FakeVmm::add(Memory memory) {
  memory.references = 1;
  const std::lock_guard lock(mutex_);
  const std::uint64_t handle = next_handle_++;
  handles_[handle] = std::move(memory);
  report_.add(Count::handles, 1);
  return handle;
}

int FakeVmm::create(std::size_t bytes, int device, int handle_types, std::uint64_t* handle) {
  if (bytes == 0 || !is_granular(bytes)) {
    return kInvalidValue;
  }
  if (!memory_.charge(device, bytes)) {
    return kOutOfMemory;
  }
  Memory made;
  made.file = FakeFile::make(bytes, memory_.new_ident(), device);
  made.handle_types = handle_types;
  made.is_charged = true;
  if (made.file == nullptr) {
    memory_.discharge(device, bytes);
    return kOutOfMemory;
  }
  *handle = add(std::move(made));
  return kSuccess;
}

void FakeVmm::drop_if_unused(std::uint64_t handle) {
  const auto found = handles_.find(handle);
  const Memory& memory = found->second;
  if (memory.references == 0 && memory.maps == 0) {
    if (memory.is_charged) {
      memory_.discharge(memory.file->device, memory.file->bytes);
    }
    handles_.erase(found);
  }
}

int FakeVmm::release(std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.references == 0) {
    return kInvalidValue;
  }
  --found->second.references;
  report_.add(Count::handles, -1);
  drop_if_unused(handle);
  return kSuccess;
}

int FakeVmm::retain(std::uint64_t address, std::uint64_t* handle) {
  const auto range = memory_.find(address);
  const std::lock_guard lock(mutex_);
  if (!range || range->kind != FakeRange::Kind::mapped) {
    return kInvalidValue;
  }
  *handle = range->handle;
  ++handles_[range->handle].references;
  report_.add(Count::handles, 1);
  return kSuccess;
}

int FakeVmm::properties(std::uint64_t handle, int* device, int* handle_types) const {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) {
    return kInvalidValue;
  }
  *device = found->second.file->device;
  *handle_types = found->second.handle_types;
  return kSuccess;
}

int FakeVmm::export_fd(std::uint64_t handle, int* fd) const {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || (found->second.handle_types & kPosixFd) == 0) {
    return kInvalidValue;
  }
  *fd = ::fcntl(found->second.file->fd, F_DUPFD_CLOEXEC, 0);
  return *fd < 0 ? kOutOfMemory : kSuccess;
}

// The descriptor stays the caller's.
int FakeVmm::import_fd(int fd, std::uint64_t* handle) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  Memory made;
  made.file = copy < 0 ? nullptr : FakeFile::adopt(copy);
  made.handle_types = kPosixFd;
  if (made.file == nullptr) {
    return kUnknown;
  }
  *handle = add(std::move(made));
  return kSuccess;
}

int FakeVmm::reserve(std::size_t bytes, std::size_t alignment, std::uint64_t* address) {
  if (bytes == 0 || bytes % kPage != 0 || (alignment & (alignment - 1)) != 0) {
    return kInvalidValue;
  }
  const std::uint64_t begin =
      memory_.reserve(bytes, alignment < kGranularity ? kGranularity : alignment);
  if (begin == 0) {
    return kOutOfMemory;
  }
  const std::lock_guard lock(mutex_);
  reservations_[begin] = bytes;
  *address = begin;
  return kSuccess;
}

int FakeVmm::unreserve(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes || memory_.overlaps(address, bytes)) {
    return kInvalidValue;
  }
  memory_.unreserve(address, bytes);
  reservations_.erase(found);
  return kSuccess;
}

// Fills in the reservation that the range lies in.
bool FakeVmm::fits_reservation(FakeRange& range) const {
  auto after = reservations_.upper_bound(range.begin);
  if (after == reservations_.begin()) {
    return false;
  }
  const auto& [begin, bytes] = *--after;
  range.area_begin = begin;
  range.area_bytes = bytes;
  return range.begin - begin < bytes && range.bytes <= bytes - (range.begin - begin);
}

int FakeVmm::map(FakeRange range, std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.references == 0 || range.bytes == 0 ||
      !is_granular(range.begin) || !is_granular(range.bytes) ||
      range.bytes > found->second.file->bytes || !fits_reservation(range) ||
      memory_.overlaps(range.begin, range.bytes)) {
    return kInvalidValue;
  }
  range.file = found->second.file;
  range.handle = handle;
  const int answer = memory_.map(range);
  found->second.maps += answer == kSuccess ? 1 : 0;
  return answer;
}

bool FakeVmm::are_whole(std::uint64_t address, std::size_t bytes) const {
  std::uint64_t at = address;
  while (at < address + bytes) {
    const auto range = memory_.find(at);
    if (!range || range->kind != FakeRange::Kind::mapped || range->begin != at) {
      return false;
    }
    at = range->end();
  }
  return bytes != 0 && at == address + bytes;
}

void FakeVmm::unmap(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t at = address; at < address + bytes;) {
    const auto range = memory_.find(at);
    at = range->end();
    memory_.unmap(range->begin);
    --handles_[range->handle].maps;
    drop_if_unused(range->handle);
  }
}

bool FakeVmm::is_reserved(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  auto after = reservations_.upper_bound(address);
  return after != reservations_.begin() && address - (--after)->first < after->second;
}

}  // namespace hc::fake
