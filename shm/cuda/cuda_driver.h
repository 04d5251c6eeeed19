// SPDX-License-Identifier: Apache-2.0
// cuda_driver: libcuda, loaded at run time; a machine without a GPU is an answer, not an error.
//
// Owner thread: any; plain values once loaded, and the driver itself may be called by any thread.
// Invariants: every required entry is there; an optional one may be null. A loaded driver stays in
// the process for good: its threads and exit handlers do not survive an unload.
//
// The driver does not survive a fork: load it in the process that uses it.
#pragma once

#include <string>
#include <string_view>

#include "proto/result.h"
#include "shm/cuda/cuda_entries.h"

namespace hc {

inline constexpr const char* kCudaLibrary = "libcuda.so.1";

class [[nodiscard]] CudaDriver {
 public:
  // `library`: a name that the dynamic linker looks up, or a path. Calls cuInit, so only those who
  // want a GPU call it. Error: unsupported, "no GPU: " and the one reason: no library, an entry is
  // missing, a stub, no device, what cuInit answered.
  static Result<CudaDriver> load(const std::string& library = kCudaLibrary);

  const CudaEntries* operator->() const { return &entries_; }
  int version() const { return version_; }            // 12080 is 12.8
  int device_count() const { return device_count_; }  // at least 1

  // io_error with one line: the call, the driver's name of its answer and the number.
  Error error(std::string_view call, CuResult result) const;

 private:
  CudaDriver() = default;

  CudaEntries entries_;
  int version_ = 0;
  int device_count_ = 0;
};

}  // namespace hc
