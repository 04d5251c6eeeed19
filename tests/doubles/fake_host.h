// SPDX-License-Identifier: Apache-2.0
// fake_host: host memory that is pinned, by cuMemHostAlloc or by registration.
//
// Owner thread: any; one mutex. Invariants: ranges do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "fake_plan.h"
#include "fake_report.h"

namespace hc::fake {

struct FakePinned {
  std::uint64_t begin = 0;
  std::size_t bytes = 0;
  bool is_allocated = false;  // by cuMemHostAlloc, not registered
  unsigned flags = 0;
  std::uint64_t buffer_id = 0;
  void* context = nullptr;
  int ordinal = 0;
};

class FakeHost {
 public:
  // How much of some memory is pinned: nothing, all of it at once, or neither, which no copy takes.
  enum class Cover { none, whole, broken };

  FakeHost(const FakePlan& plan, FakeReport& report);

  // The device may follow the very address of registered memory.
  bool pointer_is_usable() const { return pointer_is_usable_; }

  // `pinned`: flags, buffer id, context and ordinal.
  int allocate(FakePinned pinned, std::size_t bytes, void** memory);
  int release(void* memory);
  int enlist(FakePinned pinned);
  int withdraw(void* memory);
  bool is_allocated(void* memory) const;
  bool is_registered(void* memory) const;

  Cover cover(std::uint64_t begin, std::size_t bytes) const;
  std::optional<FakePinned> find(std::uint64_t address) const;
  // The address under which the device sees pinned memory.
  std::uint64_t device_view(const FakePinned& pinned, std::uint64_t address) const;

 private:
  bool has(void* memory, bool is_allocated) const;
  const FakePinned* range_at(std::uint64_t address) const;
  bool overlaps(std::uint64_t begin, std::size_t bytes) const;

  const bool pointer_is_usable_;
  const std::size_t register_max_;
  const int register_error_;
  FakeReport& report_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, FakePinned> ranges_;
};

}  // namespace hc::fake
