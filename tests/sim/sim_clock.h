// SPDX-License-Identifier: Apache-2.0
// sim_clock: virtual time. It moves when the driver says so, and a little at every poll of a
// device, so that completions arrive between two polls of one turn, as they do in the world.
#pragma once

#include "daemon/os/clock.h"

namespace hc::sim {

constexpr std::int64_t kUs = 1'000;  // in nanoseconds

class SimClock final : public Clock {
 public:
  Instant now() override { return now_; }
  Instant time() const { return now_; }
  void advance_to(Instant at) { now_ = at < now_ ? now_ : at; }
  void tick(std::int64_t delta_ns) { now_.ns += frozen_ ? 0 : delta_ns; }
  // While frozen nothing moves by itself: two turns in a row see the same world.
  void freeze(bool frozen) { frozen_ = frozen; }
  bool frozen() const { return frozen_; }

  static constexpr Instant kNever{INT64_MAX};

 private:
  Instant now_{1'000'000'000};
  bool frozen_ = false;
};

}  // namespace hc::sim
