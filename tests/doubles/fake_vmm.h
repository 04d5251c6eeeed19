// SPDX-License-Identifier: Apache-2.0
// fake_vmm: memory without addresses and addresses without memory, as cuMemCreate and
// cuMemAddressReserve give them.
//
// Owner thread: any; one mutex, never held while work is waited for.
// Invariants: memory is accounted for until its last handle and its last mapping are gone; that of
// another process is accounted for there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "fake_memory.h"
#include "fake_report.h"

namespace hc::fake {

inline constexpr std::size_t kGranularity = std::size_t{2} << 20;
// CUmemAllocationHandleType
inline constexpr int kPosixFd = 1;

class FakeVmm {
 public:
  FakeVmm(FakeReport& report, FakeMemory& memory) : report_(report), memory_(memory) {}

  int create(std::size_t bytes, int device, int handle_types, std::uint64_t* handle);
  int release(std::uint64_t handle);
  int retain(std::uint64_t address, std::uint64_t* handle);
  // The device as the machine counts, and the handle types.
  int properties(std::uint64_t handle, int* device, int* handle_types) const;
  int export_fd(std::uint64_t handle, int* fd) const;
  int import_fd(int fd, std::uint64_t* handle);

  int reserve(std::size_t bytes, std::size_t alignment, std::uint64_t* address);
  int unreserve(std::uint64_t address, std::size_t bytes);
  int map(FakeRange range, std::uint64_t handle);
  // Whether these are whole mappings; and the unmapping, once all work has ended.
  bool are_whole(std::uint64_t address, std::size_t bytes) const;
  void unmap(std::uint64_t address, std::size_t bytes);
  bool is_reserved(std::uint64_t address) const;

 private:
  struct Memory {
    std::shared_ptr<FakeFile> file;
    int handle_types = 0;
    bool is_charged = false;
    long references = 0;  // handles and retains
    long maps = 0;
  };

  std::uint64_t add(Memory memory);
  void drop_if_unused(std::uint64_t handle);
  bool fits_reservation(FakeRange& range) const;

  FakeReport& report_;
  FakeMemory& memory_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Memory> handles_;
  std::map<std::uint64_t, std::size_t> reservations_;
  std::uint64_t next_handle_ = 0x200000;
};

}  // namespace hc::fake
