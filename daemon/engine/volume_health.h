// SPDX-License-Identifier: Apache-2.0
// volume_health: which volumes answer. One on which everything fails is given no more work, so that
// the others go on; now and then it gets one part to show whether it is back.
//
// Owner: the reactor thread.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/os/clock.h"

namespace hc {

class VolumeHealth {
 public:
  // Device failures in a row after which a volume counts as dead.
  static constexpr std::uint32_t kFailuresMax = 8;
  static constexpr std::int64_t kProbeMs = 5000;

  // How a request on the volume has ended. True when that has changed its state.
  bool note(std::uint16_t volume, bool device_failed, Instant now);
  bool is_dead(std::uint16_t volume) const;
  // A dead volume that may be tried again now; the next time is put off.
  bool take_probe(std::uint16_t volume, Instant now);

 private:
  struct State {
    std::uint32_t failures = 0;
    Instant probe_at{};
  };
  State& at(std::uint16_t volume);

  std::vector<State> volumes_;
};

}  // namespace hc
