// SPDX-License-Identifier: Apache-2.0
// fake_ipc: memory of other processes that is open here, counted as the driver counts.
//
// Owner thread: any; one mutex, never held while work is waited for.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "fake_event.h"
#include "fake_memory.h"
#include "fake_plan.h"
#include "fake_report.h"

namespace hc::fake {

class FakeIpc {
 public:
  FakeIpc(const FakePlan& plan, FakeReport& report, FakeMemory& memory);

  // Of the whole allocation, wherever in it the address lies.
  int get_handle(std::uint64_t address, FakeIpcHandle* handle) const;
  // `at`: context and ordinal; `device`: the number of its device on this machine.
  int open(const FakeIpcHandle& handle, const FakeRange& at, int device, std::uint64_t* address);
  bool is_open(std::uint64_t address) const;
  // True if this was the last: then the caller waits for all work and drops the import.
  bool close(std::uint64_t address);
  // Of mappings whose process is dead or has freed the memory.
  long orphaned_bytes() const;

 private:
  struct Import {
    FakeIpcHandle handle;
    void* context;
    long opens;
  };

  const int dead_handle_;
  const int interior_handle_;
  const bool close_unmaps_;
  FakeReport& report_;
  FakeMemory& memory_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Import> imports_;
};

}  // namespace hc::fake
