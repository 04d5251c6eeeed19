// SPDX-License-Identifier: Apache-2.0
// cuda_device: one device as all threads of the copies see it: driver, context, whether it is lost.
//
// Owner thread: any; nothing but `lost` and what is noted ever changes.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "proto/ids.h"
#include "proto/result.h"
#include "shm/cuda/primary_context.h"

namespace hc {

class CudaDevice {
 public:
  // The device of this UUID, whatever its ordinal. Errors: refused (the daemon does not see it),
  // io_error.
  static Result<std::shared_ptr<CudaDevice>> open(const CudaDriver& driver, const Uuid& uuid);

  struct Facts {
    Uuid uuid{};
    std::string name;
    std::string pci;
    int ordinal = 0;                   // as this process counts
    bool takes_host_addresses = true;  // of registered memory, in batches
  };
  CudaDevice(PrimaryContext context, Facts facts);

  const CudaDriver& driver() const { return context_.driver(); }
  const PrimaryContext& context() const { return context_; }
  const Uuid& uuid() const { return facts_.uuid; }
  const Facts& facts() const { return facts_; }
  bool takes_host_addresses() const { return facts_.takes_host_addresses; }

  // Memory of the device that was free just before somebody else asked this process to make its
  // context. What is gone since is about what the context takes: other processes allocate too.
  void note_free_before(std::uint64_t free_bytes);
  std::uint64_t context_bytes() const { return context_bytes_.load(std::memory_order_relaxed); }

  // A context that has met an error of a certain kind answers nothing else until the process ends,
  // and touches no memory any more.
  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  // True for the first who says so.
  bool lose() { return !lost_.exchange(true, std::memory_order_acq_rel); }

 private:
  PrimaryContext context_;
  Facts facts_;
  std::atomic<bool> lost_{false};
  std::atomic<std::uint64_t> context_bytes_{0};
};

// "GPU-2f3c...", as the tools of the vendor print it.
std::string uuid_text(const Uuid& uuid);

}  // namespace hc
