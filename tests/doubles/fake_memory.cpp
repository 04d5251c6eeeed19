// SPDX-License-Identifier: Apache-2.0
// fake_memory: windows, files and ranges.
#include "fake_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fake_answers.h"

namespace hc::fake {

namespace {

constexpr std::size_t kPage = 4096;
// Fresh memory of a device holds anything; so much of it is overwritten with a pattern.
constexpr std::size_t kPatternBytes = std::size_t{16} << 20;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

void* host_address(std::uint64_t address) {
  return reinterpret_cast<void*>(address & ~kDeviceBit);
}

std::uint64_t device_address(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory) | kDeviceBit;
}

bool map_file(void* at, std::size_t bytes, int fd) {
  return ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
}

}  // namespace

FakeFile::~FakeFile() {
  if (fd >= 0) {
    ::close(fd);
  }
}

std::string FakeFile::name() const {
  char text[64];
  std::snprintf(text, sizeof text, "hc_gpu:%016llx:%d", static_cast<unsigned long long>(ident),
                device);
  return text;
}

std::shared_ptr<FakeFile> FakeFile::make(std::size_t bytes, std::uint64_t ident, int device) {
  auto file = std::make_shared<FakeFile>();
  file->bytes = whole_pages(bytes);
  file->ident = ident;
  file->device = device;
  file->fd = ::memfd_create(file->name().c_str(), MFD_CLOEXEC);
  if (file->fd < 0 || ::ftruncate(file->fd, static_cast<off_t>(file->bytes)) != 0) {
    return nullptr;
  }
  return file;
}

std::shared_ptr<FakeFile> FakeFile::adopt(int fd) {
  auto file = std::make_shared<FakeFile>();
  file->fd = fd;
  char link[128] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  struct stat about = {};
  unsigned long long ident = 0;
  if (::readlink(path.c_str(), link, sizeof link - 1) <= 0 || ::fstat(fd, &about) != 0 ||
      std::sscanf(link, "/memfd:hc_gpu:%16llx:%d", &ident, &file->device) != 2) {
    return nullptr;
  }
  file->ident = ident;
  file->bytes = static_cast<std::size_t>(about.st_size);
  return file;
}

FakeMemory::FakeMemory(const FakePlan& plan, FakeReport& report)
    : same_handle_(plan.setting("same_handle", 0) != 0),
      total_(static_cast<std::size_t>(plan.setting("memory_bytes", 64L << 30))),
      report_(report) {
  if (::getrandom(&next_ident_, sizeof next_ident_, 0) != sizeof next_ident_) {
    std::abort();
  }
}

std::size_t FakeMemory::used(int device) const {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

bool FakeMemory::charge(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::size_t& used = used_[device];
  if (bytes > total_ - used) {
    return false;
  }
  used += bytes;
  report_.add(Count::device_bytes, static_cast<std::int64_t>(bytes));
  return true;
}

void FakeMemory::discharge(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  used_[device] -= bytes;
  report_.add(Count::device_bytes, -static_cast<std::int64_t>(bytes));
}

void* FakeMemory::blank(void* at, std::size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at == nullptr ? 0 : MAP_FIXED);
  void* const memory = ::mmap(at, bytes, PROT_NONE, flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

FakeMemory::Window FakeMemory::take_window(std::size_t bytes) {
  auto& free = windows_[bytes];
  if (free.empty()) {
    return {blank(nullptr, bytes)};
  }
  const Window window = free.back();
  free.pop_back();
  return window;
}

// The place and the identity of the file before it, if handles are to repeat.
std::shared_ptr<FakeFile> FakeMemory::make_file(Window& window, std::size_t bytes, int device) {
  const bool repeats = window.fd >= 0;
  auto file = FakeFile::make(bytes, repeats ? window.ident : next_ident_++, device);
  if (file != nullptr && repeats) {
    ::dup3(file->fd, window.fd, O_CLOEXEC);
    ::close(std::exchange(file->fd, std::exchange(window.fd, -1)));
  }
  return file;
}

int FakeMemory::allocate(FakeRange range, std::size_t bytes, int device, std::uint64_t* address) {
  if (bytes == 0 || address == nullptr) {
    return kInvalidValue;
  }
  if (!charge(device, bytes)) {
    return kOutOfMemory;
  }
  const std::lock_guard lock(mutex_);
  Window window = take_window(whole_pages(bytes));
  range.file = window.memory == nullptr ? nullptr : make_file(window, bytes, device);
  if (range.file == nullptr || !map_file(window.memory, range.file->bytes, range.file->fd)) {
    std::perror("fake_memory");
    std::abort();
  }
  std::memset(window.memory, 0xA5, std::min(bytes, kPatternBytes));
  range.begin = range.area_begin = device_address(window.memory);
  range.bytes = range.area_bytes = bytes;
  range.buffer_id = next_buffer_id_++;
  *address = range.begin;
  ranges_[range.begin] = std::move(range);
  report_.add(Count::device, 1);
  return kSuccess;
}

void FakeMemory::release(std::uint64_t address) {
  int device = 0;
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(address);
    FakeFile& file = *found->second.file;
    device = file.device;
    bytes = found->second.bytes;
    Window window{blank(host_address(address), file.bytes), file.ident};
    if (same_handle_) {
      const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      ::dup3(nothing, file.fd, O_CLOEXEC);
      ::close(nothing);
      window.fd = std::exchange(file.fd, -1);
    }
    windows_[file.bytes].push_back(window);
    ranges_.erase(found);
  }
  discharge(device, bytes);
  report_.add(Count::device, -1);
}

int FakeMemory::import(FakeRange range, std::shared_ptr<FakeFile> file, std::size_t bytes,
                       std::uint64_t* address) {
  const std::lock_guard lock(mutex_);
  const Window window = take_window(file->bytes);
  if (window.memory == nullptr || !map_file(window.memory, file->bytes, file->fd)) {
    return kMapFailed;
  }
  range.begin = range.area_begin = device_address(window.memory);
  range.bytes = range.area_bytes = bytes;
  range.kind = FakeRange::Kind::imported;
  range.file = std::move(file);
  range.buffer_id = next_buffer_id_++;
  *address = range.begin;
  report_.add(Count::mappings, 1);
  report_.add(Count::mapped_bytes, static_cast<std::int64_t>(bytes));
  ranges_[range.begin] = std::move(range);
  return kSuccess;
}

void FakeMemory::drop_import(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(address);
  report_.add(Count::mappings, -1);
  report_.add(Count::mapped_bytes, -static_cast<std::int64_t>(found->second.bytes));
  windows_[found->second.file->bytes].push_back(
      {blank(host_address(address), found->second.file->bytes)});
  ranges_.erase(found);
}

std::uint64_t FakeMemory::reserve(std::size_t bytes, std::size_t alignment) {
  auto* const memory = static_cast<char*>(blank(nullptr, bytes + alignment));
  if (memory == nullptr) {
    return 0;
  }
  const std::uint64_t at = reinterpret_cast<std::uint64_t>(memory);
  const std::uint64_t begin = (at + alignment - 1) / alignment * alignment;
  if (begin != at) {
    ::munmap(memory, begin - at);
  }
  ::munmap(reinterpret_cast<void*>(begin + bytes), at + alignment - begin);
  report_.add(Count::reservations, 1);
  return begin | kDeviceBit;
}

void FakeMemory::unreserve(std::uint64_t address, std::size_t bytes) {
  ::munmap(host_address(address), bytes);
  report_.add(Count::reservations, -1);
}

int FakeMemory::map(FakeRange range) {
  const std::lock_guard lock(mutex_);
  if (!map_file(host_address(range.begin), range.bytes, range.file->fd)) {
    return kMapFailed;
  }
  range.kind = FakeRange::Kind::mapped;
  range.is_accessible = false;
  range.buffer_id = next_buffer_id_++;
  ranges_[range.begin] = std::move(range);
  report_.add(Count::maps, 1);
  return kSuccess;
}

void FakeMemory::unmap(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(address);
  blank(host_address(address), found->second.bytes);
  ranges_.erase(found);
  report_.add(Count::maps, -1);
}

bool FakeMemory::set_access(std::uint64_t address, std::size_t bytes, bool is_accessible) {
  const std::lock_guard lock(mutex_);
  std::vector<FakeRange*> touched;
  for (std::uint64_t at = address; at < address + bytes; at = touched.back()->end()) {
    const auto found = ranges_.find(at);
    if (found == ranges_.end() || found->second.kind != FakeRange::Kind::mapped) {
      return false;
    }
    touched.push_back(&found->second);
  }
  for (FakeRange* const range : touched) {
    range->is_accessible = is_accessible;
  }
  return true;
}

const FakeRange* FakeMemory::range_at(std::uint64_t address) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) {
    return nullptr;
  }
  const FakeRange& range = (--after)->second;
  return address < range.end() ? &range : nullptr;
}

std::optional<FakeRange> FakeMemory::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const FakeRange* const range = range_at(address);
  return range == nullptr ? std::nullopt : std::optional(*range);
}

bool FakeMemory::overlaps(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto next = ranges_.lower_bound(address);
  return range_at(address) != nullptr ||
         (next != ranges_.end() && next->second.begin < address + bytes);
}

// A reservation is one stretch of addresses, so an access may go over several of its ranges.
void* FakeMemory::host_of(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const FakeRange* range = range_at(address);
  if (range == nullptr || bytes > range->area_begin + range->area_bytes - address) {
    return nullptr;
  }
  while (range != nullptr && range->is_accessible && range->end() < address + bytes) {
    range = range_at(range->end());
  }
  return range != nullptr && range->is_accessible ? host_address(address) : nullptr;
}

std::uint64_t FakeMemory::new_ident() {
  const std::lock_guard lock(mutex_);
  return next_ident_++;
}

std::uint64_t FakeMemory::new_buffer_id() {
  const std::lock_guard lock(mutex_);
  return next_buffer_id_++;
}

}  // namespace hc::fake
