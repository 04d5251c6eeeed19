// SPDX-License-Identifier: Apache-2.0
// fake_device: memory of the device is memory of the process behind addresses that nobody can
// follow.
#include "fake_device.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace hc::fake {

namespace {

// Makes a host address one that the processor refuses.
constexpr std::uint64_t kDeviceBit = 1ULL << 62;

// Errors after which a context answers nothing else.
bool sticks(int answer) { return answer == 700 || answer == 709 || answer == 719; }

}  // namespace

// Never destroyed: workers may run until the process ends.
FakeDevice& FakeDevice::instance() {
  static FakeDevice* const device = new FakeDevice;
  return *device;
}

int FakeDevice::start() {
  const std::lock_guard lock(mutex_);
  if (started_in_ != 0 && started_in_ != ::getpid()) {
    return kNotInitialized;
  }
  started_in_ = ::getpid();
  return kSuccess;
}

int FakeDevice::enter(const char* name) {
  const int injected = plan.on_call(name);
  const std::lock_guard lock(mutex_);
  if (stuck_ != 0) {
    return stuck_;
  }
  if (injected != 0) {
    stuck_ = sticks(injected) ? injected : 0;
    return injected;
  }
  return started_in_ == ::getpid() ? kSuccess : kNotInitialized;
}

int FakeDevice::allocate(bool is_device, std::size_t bytes, std::uint64_t* address) {
  if (bytes == 0 || address == nullptr) {
    return kInvalidValue;
  }
  void* const memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (memory == nullptr) {
    return kOutOfMemory;
  }
  std::memset(memory, 0xA5, bytes);
  *address = reinterpret_cast<std::uint64_t>(memory) | (is_device ? kDeviceBit : 0);
  const std::lock_guard lock(mutex_);
  memory_[is_device][*address] = bytes;
  return kSuccess;
}

// As the real one, it waits for all work first: who frees what a stuck stream uses hangs.
int FakeDevice::release(bool is_device, std::uint64_t address) {
  {
    const std::lock_guard lock(mutex_);
    if (memory_[is_device].count(address) == 0) {
      return kInvalidValue;
    }
  }
  wait_for_all_streams();
  const std::lock_guard lock(mutex_);
  memory_[is_device].erase(address);
  std::free(reinterpret_cast<void*>(address & ~kDeviceBit));
  return kSuccess;
}

void FakeDevice::wait_for_all_streams() {
  std::vector<std::shared_ptr<FakeStream>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, stream] : streams_) {
      all.push_back(stream);
    }
  }
  for (const auto& stream : all) {
    stream->wait_idle();
  }
}

void* FakeDevice::host_of(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto after = memory_[1].upper_bound(address);
  if (after == memory_[1].begin()) {
    return nullptr;
  }
  const auto& [begin, size] = *--after;
  if (address - begin > size || bytes > size - (address - begin)) {
    return nullptr;
  }
  return reinterpret_cast<void*>(address & ~kDeviceBit);
}

bool FakeDevice::is_pinned(const void* begin, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(begin);
  const std::lock_guard lock(mutex_);
  auto after = memory_[0].upper_bound(address);
  if (after == memory_[0].begin()) {
    return false;
  }
  const auto& [first, size] = *--after;
  return address - first <= size && bytes <= size - (address - first);
}

int FakeDevice::open_stream(void** stream) {
  auto opened = FakeStream::start(plan.setting("stream_delay_us", 0));
  const std::lock_guard lock(mutex_);
  *stream = reinterpret_cast<void*>(next_handle_++);
  streams_[*stream] = std::move(opened);
  return kSuccess;
}

int FakeDevice::close_stream(void* stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) {
    return kInvalidHandle;
  }
  found->second->close();
  streams_.erase(found);
  return kSuccess;
}

std::shared_ptr<FakeStream> FakeDevice::stream_of(void* stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second;
}

int FakeDevice::open_event(void** event) {
  const std::lock_guard lock(mutex_);
  *event = reinterpret_cast<void*>(next_handle_++);
  events_[*event] = FakeEvent{};
  return kSuccess;
}

int FakeDevice::close_event(void* event) {
  const std::lock_guard lock(mutex_);
  return events_.erase(event) == 1 ? kSuccess : kInvalidHandle;
}

int FakeDevice::record(void* event, const std::shared_ptr<FakeStream>& stream) {
  auto done = std::make_shared<bool>(false);
  {
    const std::lock_guard lock(mutex_);
    const auto found = events_.find(event);
    if (found == events_.end()) {
      return kInvalidHandle;
    }
    found->second.done = done;
  }
  stream->push([this, done] {
    const std::lock_guard lock(mutex_);
    *done = true;
  });
  return kSuccess;
}

int FakeDevice::query(void* event) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) {
    return kInvalidHandle;
  }
  return *found->second.done ? kSuccess : kNotReady;
}

void FakeDevice::add_retain(long change) {
  const std::lock_guard lock(mutex_);
  retains_ += change;
}

long FakeDevice::count(const char* what) {
  const std::string name = what;
  const std::lock_guard lock(mutex_);
  if (name == "device") return static_cast<long>(memory_[1].size());
  if (name == "pinned") return static_cast<long>(memory_[0].size());
  if (name == "streams") return static_cast<long>(streams_.size());
  if (name == "events") return static_cast<long>(events_.size());
  if (name == "retains") return retains_;
  return plan.calls(name);
}

}  // namespace hc::fake
