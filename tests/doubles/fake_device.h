// SPDX-License-Identifier: Apache-2.0
// fake_device: the state behind the stand-in driver, put together; contexts, and errors that stay.
//
// Owner thread: any; each part has a mutex of its own, never held while work is waited for.
#pragma once

#include <map>
#include <mutex>

#include "fake_answers.h"
#include "fake_event.h"
#include "fake_host.h"
#include "fake_ipc.h"
#include "fake_memory.h"
#include "fake_plan.h"
#include "fake_report.h"
#include "fake_stream.h"
#include "fake_vmm.h"

namespace hc::fake {

class FakeDevice {
 public:
  static FakeDevice& instance();

  FakePlan plan{"HC_FAKE_CUDA"};
  FakeReport report;
  FakeMemory memory{plan, report};
  FakeHost host{plan, report};
  FakeStreams streams{plan, report};
  FakeEvents events{plan, report, memory};
  FakeIpc ipc{plan, report, memory};
  FakeVmm vmm{report, memory};

  int start();
  // What every call but cuInit and cuGetProcAddress does first: the plan, then an error that has
  // stuck to the process, then whether the driver was started in this very process.
  int enter(const char* name);
  // The same, for calls that need a current context.
  int enter_context(const char* name);
  // The device goes wrong while it works: every later call says so.
  void fail(int answer);

  int device_count() const { return static_cast<int>(plan.setting("devices", 1)); }
  bool has_device(int ordinal) const { return ordinal >= 0 && ordinal < device_count(); }
  // As the machine counts; CUDA_VISIBLE_DEVICES makes the same of an ordinal.
  int on_machine(int ordinal) const {
    return static_cast<int>(plan.setting("first_device", 0)) + ordinal;
  }

  bool retain(int ordinal, void** context);
  bool release(int ordinal);
  bool is_active(int ordinal) const;
  // Of the calling thread. A context is its device's ordinal plus one, as a handle.
  int push(void* context);
  int pop(void** context);
  static void* current();
  static int current_ordinal();  // -1: none
  // A range, or pinned memory, of the current context.
  static FakeRange new_range();
  FakePinned new_pinned(unsigned flags);

  // `what`: the name of a call, or of a counter of the report, or "orphaned".
  long count(const char* what) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, long> retains_;
  long started_in_ = 0;
  int stuck_ = 0;
};

}  // namespace hc::fake
