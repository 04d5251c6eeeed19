// SPDX-License-Identifier: Apache-2.0
// fake_ipc: opens once for each context, counts from there.
#include "fake_ipc.h"

#include <unistd.h>

#include <cstring>
#include <utility>

#include "fake_answers.h"

namespace hc::fake {

namespace {

constexpr std::uint64_t kMagic = 0x6d656d2d656b6166;

}  // namespace

FakeIpc::FakeIpc(const FakePlan& plan, FakeReport& report, FakeMemory& memory)
    : dead_handle_(static_cast<int>(plan.setting("dead_handle", kInvalidHandle))),
      interior_handle_(static_cast<int>(plan.setting("interior_handle", 0))),
      close_unmaps_(plan.setting("close_unmaps", 0) != 0),
      report_(report),
      memory_(memory) {}

int FakeIpc::get_handle(std::uint64_t address, FakeIpcHandle* handle) const {
  const auto range = memory_.find(address);
  if (handle == nullptr || !range || range->kind != FakeRange::Kind::allocated) {
    return kInvalidValue;
  }
  if (range->begin != address && interior_handle_ != 0) {
    return interior_handle_;
  }
  *handle = {
      kMagic, range->file->ident, range->bytes, ::getpid(), range->file->fd, range->file->device, 0,
      {}};
  return kSuccess;
}

int FakeIpc::open(const FakeIpcHandle& handle, const FakeRange& at, int device,
                  std::uint64_t* address) {
  if (handle.magic != kMagic) {
    return kInvalidHandle;
  }
  if (handle.pid == ::getpid()) {
    return kInvalidContext;
  }
  const std::lock_guard lock(mutex_);
  for (auto& [begin, import] : imports_) {
    if (import.context == at.context && std::memcmp(&import.handle, &handle, sizeof handle) == 0) {
      ++import.opens;
      *address = begin;
      return kSuccess;
    }
  }
  auto file = open_file(handle);
  if (file == nullptr) {
    return dead_handle_;
  }
  report_.add(Count::peer_opens, file->device == device ? 0 : 1);
  const int answer = memory_.import(at, std::move(file), handle.bytes, address);
  if (answer == kSuccess) {
    imports_[*address] = {handle, at.context, 1};
  }
  return answer;
}

bool FakeIpc::is_open(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  return imports_.count(address) == 1;
}

bool FakeIpc::close(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = imports_.find(address);
  if (found == imports_.end() || (--found->second.opens > 0 && !close_unmaps_)) {
    return false;
  }
  imports_.erase(found);
  return true;
}

long FakeIpc::orphaned_bytes() const {
  const std::lock_guard lock(mutex_);
  long bytes = 0;
  for (const auto& [begin, import] : imports_) {
    bytes += open_file(import.handle) == nullptr ? static_cast<long>(import.handle.bytes) : 0;
  }
  return bytes;
}

}  // namespace hc::fake
