// SPDX-License-Identifier: Apache-2.0
// alloc_fault: operator new and delete by malloc and free, with one scripted failure.
#include "unit/client/alloc_fault.h"

#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace hc::test {

namespace {

std::atomic<int> allocations_left = 0;

bool fails_now() {
  if (allocations_left.load(std::memory_order_relaxed) <= 0) {
    return false;
  }
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  return std::strcmp(name.data(), "hicache") == 0 && allocations_left.fetch_sub(1) == 1;
}

void* allocate(std::size_t bytes) noexcept {
  return fails_now() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate_or_throw(std::size_t bytes) {
  void* const memory = allocate(bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void fail_background_allocation(int number) {
  allocations_left = number;
}

bool background_allocation_failed() {
  return allocations_left == 0;
}

}  // namespace hc::test

// All of the unaligned forms, so that no form of a sanitizer's runtime meets one of these.
void* operator new(std::size_t bytes) {
  return hc::test::allocate_or_throw(bytes);
}
void* operator new[](std::size_t bytes) {
  return hc::test::allocate_or_throw(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return hc::test::allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return hc::test::allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
