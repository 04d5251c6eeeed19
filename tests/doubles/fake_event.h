// SPDX-License-Identifier: Apache-2.0
// fake_event: events of this process and of others.
//
// Owner thread: any; one mutex. Invariants: the cell of an interprocess event lies in a memory file
// that every process that knows the event maps. What was recorded by a process that died before the
// stream came to it is never reached.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "fake_memory.h"
#include "fake_plan.h"
#include "fake_report.h"
#include "fake_work.h"

namespace hc::fake {

// What the 64 bytes hold, of memory and of events.
struct FakeIpcHandle {
  std::uint64_t magic;
  std::uint64_t ident;
  std::uint64_t bytes;
  std::int32_t pid;
  std::int32_t fd;
  std::int32_t device;
  std::int32_t domain;
  std::uint64_t unused[3];
};
static_assert(sizeof(FakeIpcHandle) == 64);

struct FakeEvent {
  std::shared_ptr<FakeCell> cell;
  std::shared_ptr<FakeFile> file;  // of an interprocess event
  bool is_opened = false;          // of another process
};

// The memory file that a handle names, opened anew. Null if the process that made it is dead, has
// freed it, or is none.
std::shared_ptr<FakeFile> open_file(const FakeIpcHandle& handle);

class FakeEvents {
 public:
  FakeEvents(const FakePlan& plan, FakeReport& report, FakeMemory& memory)
      : domain_(static_cast<std::int32_t>(plan.setting("event_domain", 0))),
        report_(report),
        memory_(memory) {}

  int create(unsigned flags, void** event);
  int destroy(void* event);
  // Null if there is no such event.
  std::shared_ptr<FakeCell> find(void* event) const;
  int get_handle(void* event, FakeIpcHandle* handle) const;
  int open(const FakeIpcHandle& handle, void** event);

 private:
  void* add(FakeEvent event);

  const std::int32_t domain_;
  FakeReport& report_;
  FakeMemory& memory_;
  mutable std::mutex mutex_;
  std::map<void*, FakeEvent> events_;
  std::uintptr_t next_handle_ = 0x100000;
};

}  // namespace hc::fake
