// SPDX-License-Identifier: Apache-2.0
// fake_host: the list of pinned memory.
#include "fake_host.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "fake_answers.h"

namespace hc::fake {

namespace {

constexpr std::uint64_t kPage = 4096;

// msync tells whether every page is mapped, and does nothing else with this flag.
bool is_mapped(std::uint64_t begin, std::size_t bytes) {
  const std::uint64_t first = begin / kPage * kPage;
  return ::msync(reinterpret_cast<void*>(first), begin + bytes - first, MS_ASYNC) == 0;
}

}  // namespace

FakeHost::FakeHost(const FakePlan& plan, FakeReport& report)
    : pointer_is_usable_(plan.setting("host_pointer", 1) != 0),
      register_max_(static_cast<std::size_t>(plan.setting("register_max", 512L << 30))),
      register_error_(static_cast<int>(plan.setting("register_error", 304))),
      report_(report) {}

int FakeHost::allocate(FakePinned pinned, std::size_t bytes, void** memory) {
  if (bytes == 0 || memory == nullptr) {
    return kInvalidValue;
  }
  void* const made = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (made == nullptr) {
    return kOutOfMemory;
  }
  std::memset(made, 0xA5, bytes);
  pinned.begin = reinterpret_cast<std::uint64_t>(made);
  pinned.bytes = bytes;
  pinned.is_allocated = true;
  *memory = made;
  const std::lock_guard lock(mutex_);
  ranges_[pinned.begin] = pinned;
  report_.add(Count::pinned, 1);
  return kSuccess;
}

int FakeHost::release(void* memory) {
  const std::lock_guard lock(mutex_);
  if (!has(memory, true)) {
    return kInvalidValue;
  }
  ranges_.erase(reinterpret_cast<std::uint64_t>(memory));
  std::free(memory);
  report_.add(Count::pinned, -1);
  return kSuccess;
}

int FakeHost::enlist(FakePinned pinned) {
  if (pinned.begin == 0 || pinned.bytes == 0 || pinned.flags > 15) {
    return kInvalidValue;
  }
  if (pinned.bytes >= register_max_) {
    return register_error_;
  }
  if (!is_mapped(pinned.begin, pinned.bytes)) {
    return kInvalidValue;
  }
  const std::lock_guard lock(mutex_);
  if (overlaps(pinned.begin, pinned.bytes)) {
    return kAlreadyRegistered;
  }
  ranges_[pinned.begin] = pinned;
  report_.add(Count::registered, static_cast<std::int64_t>(pinned.bytes));
  report_.add(Count::registrations, 1);
  return kSuccess;
}

int FakeHost::withdraw(void* memory) {
  const std::lock_guard lock(mutex_);
  if (!has(memory, false)) {
    return kNotRegistered;
  }
  const auto found = ranges_.find(reinterpret_cast<std::uint64_t>(memory));
  report_.add(Count::registered, -static_cast<std::int64_t>(found->second.bytes));
  report_.add(Count::registrations, -1);
  ranges_.erase(found);
  return kSuccess;
}

bool FakeHost::has(void* memory, bool is_allocated) const {
  const auto found = ranges_.find(reinterpret_cast<std::uint64_t>(memory));
  return found != ranges_.end() && found->second.is_allocated == is_allocated;
}

bool FakeHost::is_allocated(void* memory) const {
  const std::lock_guard lock(mutex_);
  return has(memory, true);
}

bool FakeHost::is_registered(void* memory) const {
  const std::lock_guard lock(mutex_);
  return has(memory, false);
}

const FakePinned* FakeHost::range_at(std::uint64_t address) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) {
    return nullptr;
  }
  const FakePinned& range = (--after)->second;
  return address - range.begin < range.bytes ? &range : nullptr;
}

bool FakeHost::overlaps(std::uint64_t begin, std::size_t bytes) const {
  const auto next = ranges_.lower_bound(begin);
  return range_at(begin) != nullptr ||
         (next != ranges_.end() && next->second.begin - begin < bytes);
}

FakeHost::Cover FakeHost::cover(std::uint64_t begin, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const FakePinned* const range = range_at(begin);
  if (range != nullptr) {
    const bool all = bytes <= range->bytes - (begin - range->begin);
    return all ? Cover::whole : Cover::broken;
  }
  return overlaps(begin, bytes) ? Cover::broken : Cover::none;
}

std::optional<FakePinned> FakeHost::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const FakePinned* const range = range_at(address);
  return range == nullptr ? std::nullopt : std::optional(*range);
}

std::uint64_t FakeHost::device_view(const FakePinned& pinned, std::uint64_t address) const {
  return pinned.is_allocated || pointer_is_usable_ ? address : address | kAliasBit;
}

}  // namespace hc::fake
