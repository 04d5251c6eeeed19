// SPDX-License-Identifier: Apache-2.0
// device_words: the words of a vector on a device: a stream, a buffer there and a pinned one here.
//
// Owner thread: the caller's, with the context current in every call and in the destructor.
// Invariants: no buffer is freed while the stream may still touch it; what can't be known to be
// idle is kept until the process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/result.h"
#include "shm/cuda/cuda_driver.h"

namespace hc {

class [[nodiscard]] DeviceWords {
 public:
  // Error: io_error; nothing is held then.
  static Result<DeviceWords> create(const CudaDriver& driver, std::size_t count);

  DeviceWords(DeviceWords&& other) noexcept;
  DeviceWords& operator=(DeviceWords&&) = delete;
  ~DeviceWords();

  std::span<std::int64_t> host() { return {static_cast<std::int64_t*>(host_), count_}; }
  // For NCCL only, which takes addresses of the device as pointers.
  void* device() const { return reinterpret_cast<void*>(device_); }
  CuStream stream() const { return stream_; }

  // Both only queue the copy behind what is in the stream.
  CuResult copy_in() const;
  CuResult copy_out() const;
  // Success: all that was queued is done; kCuNotReady; else an error of anything before.
  CuResult query() const { return driver_->stream_query(stream_); }
  // True: the stream is idle or its context is lost, so nothing touches the buffers any more.
  bool drain(std::int64_t timeout_ns) const;

 private:
  DeviceWords(const CudaDriver& driver, std::size_t count) : driver_(driver), count_(count) {}
  Result<void> acquire();
  std::size_t size_bytes() const { return count_ * sizeof(std::int64_t); }

  CudaDriver driver_;
  std::size_t count_;
  CuStream stream_ = nullptr;
  CuAddress device_ = 0;
  void* host_ = nullptr;
};

}  // namespace hc
