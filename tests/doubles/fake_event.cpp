// SPDX-License-Identifier: Apache-2.0
// fake_event: the list of events, and how a handle leads to a memory file of another process.
#include "fake_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "fake_answers.h"

namespace hc::fake {

namespace {

constexpr std::uint64_t kMagic = 0x7476652d656b6166;
constexpr std::size_t kCellBytes = 4096;
static_assert(sizeof(FakeCell) <= kCellBytes);

std::shared_ptr<FakeCell> map_cell(int fd) {
  void* const memory = ::mmap(nullptr, kCellBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  return {static_cast<FakeCell*>(memory),
          [](FakeCell* cell) { ::munmap(static_cast<void*>(cell), kCellBytes); }};
}

}  // namespace

std::shared_ptr<FakeFile> open_file(const FakeIpcHandle& handle) {
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  auto file = FakeFile::adopt(fd);
  return file != nullptr && file->ident == handle.ident ? file : nullptr;
}

void* FakeEvents::add(FakeEvent event) {
  report_.add(Count::events, 1);
  report_.add(Count::opened_events, event.is_opened ? 1 : 0);
  const std::lock_guard lock(mutex_);
  auto* const handle = reinterpret_cast<void*>(next_handle_++);
  events_[handle] = std::move(event);
  return handle;
}

int FakeEvents::create(unsigned flags, void** event) {
  const bool has_timing = (flags & 2U) == 0;
  const bool is_interprocess = (flags & 4U) != 0;
  if (event == nullptr || flags > 7 || (is_interprocess && has_timing)) {
    return kInvalidValue;
  }
  FakeEvent made;
  if (is_interprocess) {
    made.file = FakeFile::make(kCellBytes, memory_.new_ident(), 0);
    made.cell = made.file == nullptr ? nullptr : map_cell(made.file->fd);
  } else {
    made.cell = std::make_shared<FakeCell>();
  }
  if (made.cell == nullptr) {
    return kOutOfMemory;
  }
  *event = add(std::move(made));
  return kSuccess;
}

int FakeEvents::destroy(void* event) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) {
    return kInvalidHandle;
  }
  report_.add(Count::events, -1);
  report_.add(Count::opened_events, found->second.is_opened ? -1 : 0);
  events_.erase(found);
  return kSuccess;
}

std::shared_ptr<FakeCell> FakeEvents::find(void* event) const {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : found->second.cell;
}

int FakeEvents::get_handle(void* event, FakeIpcHandle* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end() || found->second.file == nullptr || found->second.is_opened) {
    return kInvalidHandle;
  }
  const FakeFile& file = *found->second.file;
  *handle = {kMagic, file.ident, kCellBytes, ::getpid(), file.fd, 0, domain_, {}};
  return kSuccess;
}

int FakeEvents::open(const FakeIpcHandle& handle, void** event) {
  if (event == nullptr) {
    return kInvalidValue;
  }
  if (handle.magic != kMagic) {
    return kInvalidHandle;
  }
  if (handle.pid == ::getpid()) {
    return kInvalidContext;
  }
  if (handle.domain != domain_) {
    return kMapFailed;
  }
  FakeEvent opened;
  opened.file = open_file(handle);
  opened.cell = opened.file == nullptr ? nullptr : map_cell(opened.file->fd);
  opened.is_opened = true;
  if (opened.cell == nullptr) {
    return kInvalidHandle;
  }
  *event = add(std::move(opened));
  return kSuccess;
}

}  // namespace hc::fake
