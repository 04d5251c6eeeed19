// SPDX-License-Identifier: Apache-2.0
// fake_device: start, contexts, errors that stay.
#include "fake_device.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "fake_outlive.h"

namespace hc::fake {

namespace {

// Those of which the header says that the process is inconsistent from then on, and a context that
// is gone.
constexpr int kSticky[] = {226, 700, 702, 709, 714, 715, 716, 717, 718, 719};

thread_local std::vector<void*> current_contexts;

}  // namespace

// Never destroyed: workers may run until the process ends.
FakeDevice& FakeDevice::instance() {
  static FakeDevice* const device = new FakeDevice;
  return *device;
}

int FakeDevice::start() {
  const std::lock_guard lock(mutex_);
  if (started_in_ != 0) {
    return started_in_ == ::getpid() ? kSuccess : kNotInitialized;
  }
  started_in_ = ::getpid();
  report.publish();
  if (const long lifetime_us = plan.setting("outlive_us", 0); lifetime_us > 0) {
    outlive_start(lifetime_us, report.place(Count::outlived));
  }
  return kSuccess;
}

int FakeDevice::enter(const char* name) {
  const int injected = plan.on_call(name);
  const std::lock_guard lock(mutex_);
  if (stuck_ != 0) {
    return stuck_;
  }
  if (injected != 0) {
    const bool sticks =
        std::find(std::begin(kSticky), std::end(kSticky), injected) != std::end(kSticky) ||
        injected == plan.setting("sticky", 0);
    stuck_ = sticks ? injected : 0;
    return injected;
  }
  return started_in_ == ::getpid() ? kSuccess : kNotInitialized;
}

int FakeDevice::enter_context(const char* name) {
  const int answer = enter(name);
  return answer != 0 ? answer : current() != nullptr ? kSuccess : kInvalidContext;
}

void FakeDevice::fail(int answer) {
  const std::lock_guard lock(mutex_);
  stuck_ = answer;
}

bool FakeDevice::retain(int ordinal, void** context) {
  if (!has_device(ordinal)) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  ++retains_[ordinal];
  report.add(Count::retains, 1);
  *context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(ordinal) + 1);
  return true;
}

bool FakeDevice::release(int ordinal) {
  const std::lock_guard lock(mutex_);
  if (retains_[ordinal] == 0) {
    return false;
  }
  --retains_[ordinal];
  report.add(Count::retains, -1);
  return true;
}

bool FakeDevice::is_active(int ordinal) const {
  const std::lock_guard lock(mutex_);
  const auto found = retains_.find(ordinal);
  return found != retains_.end() && found->second > 0;
}

int FakeDevice::push(void* context) {
  if (context == nullptr ||
      !is_active(static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1)) {
    return kInvalidContext;
  }
  current_contexts.push_back(context);
  return kSuccess;
}

int FakeDevice::pop(void** context) {
  if (current() == nullptr) {
    return kInvalidContext;
  }
  *context = current_contexts.back();
  current_contexts.pop_back();
  return kSuccess;
}

void* FakeDevice::current() {
  return current_contexts.empty() ? nullptr : current_contexts.back();
}

int FakeDevice::current_ordinal() {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(current())) - 1;
}

FakeRange FakeDevice::new_range() {
  FakeRange range;
  range.context = current();
  range.ordinal = current_ordinal();
  return range;
}

FakePinned FakeDevice::new_pinned(unsigned flags) {
  FakePinned pinned;
  pinned.flags = flags;
  pinned.buffer_id = memory.new_buffer_id();
  pinned.context = current();
  pinned.ordinal = current_ordinal();
  return pinned;
}

long FakeDevice::count(const char* what) const {
  const std::string name = what;
  if (name == "orphaned") {
    return ipc.orphaned_bytes();
  }
  const std::int64_t value = report.get(name);
  return value >= 0 ? static_cast<long>(value) : plan.calls(name);
}

}  // namespace hc::fake
