// SPDX-License-Identifier: Apache-2.0
// system_clock: the Clock over CLOCK_MONOTONIC.
#pragma once

#include <ctime>

#include "daemon/os/clock.h"
#include "proto/check.h"

namespace hc {

class SystemClock final : public Clock {
 public:
  Instant now() override {
    timespec at{};
    HC_CHECK(::clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    return {static_cast<std::int64_t>(at.tv_sec) * 1'000'000'000 + at.tv_nsec};
  }
};

}  // namespace hc
