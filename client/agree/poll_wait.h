// SPDX-License-Identifier: Apache-2.0
// poll_wait: how long to pause between two looks at something that can't wake us.
//
// Owner thread: the waiting one. First it spins, then it gives the processor away, then it sleeps,
// each time twice as long up to a bound: who looks after a long wait is late by that bound at most.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <ctime>

#include "client/agree/agreement.h"
#include "shm/shared_word.h"

namespace hc {

class PollWait {
 public:
  explicit PollWait(const AgreementLimits& limits) : limits_(limits), begin_ns_(now_ns()) {}

  // False: the time is up. Otherwise returns after a pause; the caller looks again.
  [[nodiscard]] bool pause() {
    const std::int64_t waited = now_ns() - begin_ns_;
    if (waited >= limits_.timeout_ns) {
      return false;
    }
    if (waited < limits_.spin_ns) {
      spin_pause();
    } else if (waited < 2 * std::min(limits_.spin_ns, kYieldNsMax)) {
      ::sched_yield();
    } else {
      const timespec sleep{0, std::min(sleep_ns_, limits_.timeout_ns - waited)};
      ::nanosleep(&sleep, nullptr);
      sleep_ns_ = std::min(2 * sleep_ns_, kSleepNsMax);
    }
    return true;
  }

 private:
  static constexpr std::int64_t kYieldNsMax = 1'000'000;
  static constexpr std::int64_t kSleepNsMin = 10'000;
  static constexpr std::int64_t kSleepNsMax = 200'000;

  static std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  }

  AgreementLimits limits_;
  std::int64_t begin_ns_;
  std::int64_t sleep_ns_ = kSleepNsMin;
};

}  // namespace hc
