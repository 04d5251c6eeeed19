// SPDX-License-Identifier: Apache-2.0
// fake_memory: memory of the device is memory files, mapped behind addresses that nobody can
// follow.
//
// Owner thread: any; one mutex, never held while work is waited for.
// Invariants: an address of the device is that of a window of this process with a bit that the
// processor refuses. A window outlives what is mapped in it, and is reused for the same size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fake_plan.h"
#include "fake_report.h"

namespace hc::fake {

// A memory file; it lives until nobody maps it, whatever process made it. `device` is a number of
// the machine, not of this process.
struct FakeFile {
  int fd = -1;
  std::size_t bytes = 0;
  std::uint64_t ident = 0;
  int device = 0;

  FakeFile() = default;
  FakeFile(const FakeFile&) = delete;
  FakeFile& operator=(const FakeFile&) = delete;
  ~FakeFile();

  // The name under which the kernel shows the file: what a handle is checked against.
  std::string name() const;
  static std::shared_ptr<FakeFile> make(std::size_t bytes, std::uint64_t ident, int device);
  // An open file that some process made so; null if it is none.
  static std::shared_ptr<FakeFile> adopt(int fd);
};

struct FakeRange {
  enum class Kind { allocated, pooled, imported, mapped };

  std::uint64_t begin = 0;
  std::size_t bytes = 0;  // as asked for
  Kind kind = Kind::allocated;
  std::shared_ptr<FakeFile> file;
  std::uint64_t buffer_id = 0;
  bool is_accessible = true;
  std::uint64_t area_begin = 0;  // the reservation, or the range itself
  std::size_t area_bytes = 0;
  std::uint64_t handle = 0;  // of a mapped one
  void* context = nullptr;
  int ordinal = 0;

  std::uint64_t end() const { return begin + bytes; }
};

class FakeMemory {
 public:
  FakeMemory(const FakePlan& plan, FakeReport& report);

  std::size_t total() const { return total_; }
  std::size_t used(int device) const;
  // Accounts for memory of a device; false if there is not so much.
  bool charge(int device, std::size_t bytes);
  void discharge(int device, std::size_t bytes);

  // `range`: context, ordinal and kind; the rest is filled in.
  int allocate(FakeRange range, std::size_t bytes, int device, std::uint64_t* address);
  void release(std::uint64_t address);
  int import(FakeRange range, std::shared_ptr<FakeFile> file, std::size_t bytes,
             std::uint64_t* address);
  void drop_import(std::uint64_t address);

  // Addresses with nothing behind them, and a file behind some of them.
  std::uint64_t reserve(std::size_t bytes, std::size_t alignment);
  void unreserve(std::uint64_t address, std::size_t bytes);
  int map(FakeRange range);
  void unmap(std::uint64_t address);
  bool set_access(std::uint64_t address, std::size_t bytes, bool is_accessible);

  // The range that an address lies in.
  std::optional<FakeRange> find(std::uint64_t address) const;
  bool overlaps(std::uint64_t address, std::size_t bytes) const;
  // The bytes behind an address, or null if not all of them may be accessed.
  void* host_of(std::uint64_t address, std::size_t bytes) const;

  std::uint64_t new_ident();
  std::uint64_t new_buffer_id();

 private:
  // Of an allocation that was freed; `fd` holds the place of its file if handles repeat.
  struct Window {
    void* memory;
    std::uint64_t ident = 0;
    int fd = -1;
  };

  Window take_window(std::size_t bytes);
  static void* blank(void* at, std::size_t bytes);
  std::shared_ptr<FakeFile> make_file(Window& window, std::size_t bytes, int device);
  const FakeRange* range_at(std::uint64_t address) const;

  const bool same_handle_;
  const std::size_t total_;
  FakeReport& report_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, FakeRange> ranges_;
  std::map<std::size_t, std::vector<Window>> windows_;
  std::map<int, std::size_t> used_;
  std::uint64_t next_ident_;
  std::uint64_t next_buffer_id_ = 1;
};

}  // namespace hc::fake
