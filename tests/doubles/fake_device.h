// SPDX-License-Identifier: Apache-2.0
// fake_device: the state behind the stand-in driver: memory, streams, events, contexts.
//
// Owner thread: any; one mutex, never held while work is waited for.
// Invariants: an address of the device is no pointer of this process; following one faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "fake_plan.h"
#include "fake_stream.h"

namespace hc::fake {

// The answers of the driver that the double gives by itself.
enum Answer : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
};

struct FakeEvent {
  // Of the latest record; done when the worker has reached it.
  std::shared_ptr<bool> done = std::make_shared<bool>(true);
};

class FakeDevice {
 public:
  static FakeDevice& instance();

  FakePlan plan{"HC_FAKE_CUDA"};

  // What every call but cuInit and cuGetProcAddress does first: the plan, then an error that has
  // stuck to the context, then whether the driver was started in this very process.
  int enter(const char* name);
  int start();

  int allocate(bool is_device, std::size_t bytes, std::uint64_t* address);
  int release(bool is_device, std::uint64_t address);
  // The bytes behind an address of the device, or null if not all of them are of one allocation.
  void* host_of(std::uint64_t address, std::size_t bytes);
  bool is_pinned(const void* begin, std::size_t bytes);

  int open_stream(void** stream);
  int close_stream(void* stream);
  std::shared_ptr<FakeStream> stream_of(void* stream);

  int open_event(void** event);
  int close_event(void* event);
  int record(void* event, const std::shared_ptr<FakeStream>& stream);
  int query(void* event);

  // `what`: the name of a call, or device, pinned, streams, events, retains.
  long count(const char* what);
  void add_retain(long change);

 private:
  void wait_for_all_streams();

  std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> memory_[2];
  std::map<void*, std::shared_ptr<FakeStream>> streams_;
  std::map<void*, FakeEvent> events_;
  std::uintptr_t next_handle_ = 0x1000;
  long retains_ = 0;
  long started_in_ = 0;
  int stuck_ = 0;
};

}  // namespace hc::fake
