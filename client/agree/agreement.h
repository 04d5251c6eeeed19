// SPDX-License-Identifier: Apache-2.0
// agreement: the seam through which the ranks of a group reduce their vector to its minimum.
//
// Owner thread: the engine's scheduler. One reduce at a time, in the same order on all ranks.
#pragma once

#include <cstdint>

#include "client/reload/agreement_vector.h"
#include "proto/result.h"

namespace hc {

struct AgreementLimits {
  std::int64_t spin_ns = 20'000;               // before the thread sleeps
  std::int64_t timeout_ns = 1'000'000'000;     // of one reduce
};

class Agreement {
 public:
  virtual ~Agreement() = default;
  // Replaces the words by their minimum over all ranks. After anything but ok they are nobody's
  // and this object is of no use any more: disconnected (a member died or left), timed_out,
  // io_error.
  [[nodiscard]] virtual Code reduce(AgreementVector& vector, const AgreementLimits& limits) = 0;
};

}  // namespace hc
