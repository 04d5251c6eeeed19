// SPDX-License-Identifier: Apache-2.0
// step_ledger: the bytes of one volume: what its slabs have been given of the budget.
//
// Owner: the reactor thread.
// Invariant: bytes are charged before they are allocated and released after they were punched, so
// that what is allocated never passes what is charged; nothing is granted past the budget.
// Only a start can find more than the budget (it was lowered): then nothing is granted until enough
// has been released.
#pragma once

#include <cstdint>

#include "proto/check.h"

namespace hc {

class StepLedger {
 public:
  explicit StepLedger(std::uint64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  // False: it does not fit, and nothing has changed.
  [[nodiscard]] bool charge(std::uint64_t bytes) {
    if (bytes > free_bytes()) {
      return false;
    }
    charged_bytes_ += bytes;
    return true;
  }
  // What a start has found on the disk, whether or not it fits.
  void charge_found(std::uint64_t bytes) { charged_bytes_ += bytes; }
  void release(std::uint64_t bytes) {
    HC_CHECK(bytes <= charged_bytes_);
    charged_bytes_ -= bytes;
  }

  std::uint64_t budget_bytes() const { return budget_bytes_; }
  std::uint64_t charged_bytes() const { return charged_bytes_; }
  std::uint64_t free_bytes() const {
    return charged_bytes_ < budget_bytes_ ? budget_bytes_ - charged_bytes_ : 0;
  }
  bool over_budget() const { return charged_bytes_ > budget_bytes_; }

 private:
  std::uint64_t budget_bytes_;
  std::uint64_t charged_bytes_ = 0;
};

}  // namespace hc
