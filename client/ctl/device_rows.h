// SPDX-License-Identifier: Apache-2.0
// device_rows: rows of a rank in the memory of a GPU, with a mirror in pinned host memory that is
// filled and compared.
//
// As engines have it, the memory lies somewhere in a larger allocation, and what the rank does to
// it is queued in a stream. Owner thread: the rank's only thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "proto/result.h"
#include "shm/cuda/primary_context.h"

namespace hc {

// Of cuMemAlloc; or chunks of cuMemCreate behind each other, as expandable segments are, which may
// be exported or not.
enum class RowsMemory : std::uint8_t { allocation, chunks, sealed_chunks };

class DeviceRows {
 public:
  // On device `rank` modulo their count. Errors: unsupported (no GPU), io_error.
  static Result<std::unique_ptr<DeviceRows>> make(std::uint64_t size_bytes, std::uint32_t rank,
                                                  RowsMemory memory);
  explicit DeviceRows(PrimaryContext context) : context_(std::move(context)) {}
  DeviceRows(const DeviceRows&) = delete;
  DeviceRows& operator=(const DeviceRows&) = delete;
  ~DeviceRows();

  // What the driver calls the device.
  std::string device_name() const;
  std::uint8_t* mirror() const { return static_cast<std::uint8_t*>(mirror_); }
  std::uint64_t address() const;
  void* stream() const { return stream_; }

  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size_bytes = 0;
  };
  // Only queues it.
  Result<void> push(const Range& range);
  // Returns when the mirror holds what the device does.
  Result<void> pull(const Range& range);
  // Returns when nothing that was queued is left to do.
  Result<void> settle() const;

 private:
  Result<void> acquire(std::uint64_t size_bytes, RowsMemory memory, int ordinal);
  Result<void> map_chunks(std::uint64_t size_bytes, RowsMemory memory, int ordinal);

  PrimaryContext context_;
  CuStream stream_ = nullptr;
  CuAddress allocation_ = 0;
  std::uint64_t reserved_bytes_ = 0;  // 0: it is of cuMemAlloc
  std::uint64_t mapped_bytes_ = 0;
  void* mirror_ = nullptr;
};

}  // namespace hc
