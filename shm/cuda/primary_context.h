// SPDX-License-Identifier: Apache-2.0
// primary_context: our share in a device's primary context, the one that the engine uses too, and
// how a thread makes it current for a scope.
//
// Owner thread: whoever holds it; CurrentContext is of the thread that made it.
// Invariants: the thread's own current context is back when the scope ends.
#pragma once

#include <utility>

#include "proto/result.h"
#include "shm/cuda/cuda_driver.h"

namespace hc {

class [[nodiscard]] PrimaryContext {
 public:
  // ordinal: as CUDA counts, after CUDA_VISIBLE_DEVICES. Errors: bad_argument, io_error.
  static Result<PrimaryContext> retain(const CudaDriver& driver, int ordinal);

  PrimaryContext(PrimaryContext&& other) noexcept
      : driver_(other.driver_),
        device_(other.device_),
        context_(std::exchange(other.context_, nullptr)) {}
  PrimaryContext& operator=(PrimaryContext&&) = delete;
  ~PrimaryContext();

  const CudaDriver& driver() const { return driver_; }
  CuContext get() const { return context_; }
  CuDevice device() const { return device_; }
  // The last release of a context waits for its work. Who knows of work that may never end keeps
  // the share until the process ends.
  void keep_for_good() { context_ = nullptr; }

 private:
  PrimaryContext(const CudaDriver& driver, CuDevice device, CuContext context)
      : driver_(driver), device_(device), context_(context) {}

  CudaDriver driver_;
  CuDevice device_;
  CuContext context_;
};

class [[nodiscard]] CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& context)
      : driver_(context.driver()), result_(driver_->ctx_push(context.get())) {}
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

  // Of the push: nothing that needs a context may be called after a failed one.
  CuResult result() const { return result_; }

 private:
  const CudaDriver& driver_;
  CuResult result_;
};

}  // namespace hc
