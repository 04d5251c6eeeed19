// SPDX-License-Identifier: Apache-2.0
// uring_tables: which files and which memory are registered with a ring, and under what number.
//
// Owner: the reactor thread. What does not fit or can't be registered is used unregistered.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/os/disk.h"
#include "daemon/os/uring.h"

namespace hc {

class UringTables {
 public:
  static constexpr std::uint32_t kFilesMax = 2048;
  static constexpr std::uint32_t kBuffersMax = 16384;            // the kernel's own bound
  static constexpr std::uint64_t kBufferBytesMax = 1ULL << 30;   // the same

  UringTables();

  // Errors: no_space (the limit of locked memory, or a full table); nothing is registered then.
  Result<void> add_memory(Uring& ring, std::span<std::uint8_t> bytes);
  void drop_memory(Uring& ring, std::span<std::uint8_t> bytes);
  // The registered buffer that holds all of this, or none.
  std::optional<std::uint32_t> buffer_of(const void* data, std::size_t size_bytes) const;

  void add_file(Uring& ring, FileId file, int fd);
  void drop_file(Uring& ring, FileId file);
  std::optional<std::uint32_t> file_of(FileId file) const;

 private:
  struct Buffer {
    const std::uint8_t* begin = nullptr;
    std::size_t size_bytes = 0;
    std::uint32_t number = 0;
  };

  std::vector<Buffer> buffers_;                 // by address
  std::vector<std::uint32_t> free_buffers_;
  std::unordered_map<std::uint32_t, std::uint32_t> files_;  // FileId to number
  std::vector<std::uint32_t> free_files_;
};

}  // namespace hc
