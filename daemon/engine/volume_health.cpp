// SPDX-License-Identifier: Apache-2.0
// volume_health: failures in a row, and the time of the next try.
#include "daemon/engine/volume_health.h"

namespace hc {

VolumeHealth::State& VolumeHealth::at(std::uint16_t volume) {
  if (volumes_.size() <= volume) {
    volumes_.resize(volume + std::size_t{1});
  }
  return volumes_[volume];
}

bool VolumeHealth::is_dead(std::uint16_t volume) const {
  return volume < volumes_.size() && volumes_[volume].failures >= kFailuresMax;
}

bool VolumeHealth::note(std::uint16_t volume, bool device_failed, Instant now) {
  State& state = at(volume);
  const bool was_dead = state.failures >= kFailuresMax;
  if (!device_failed) {
    state.failures = 0;
    return was_dead;
  }
  if (was_dead) {
    return false;
  }
  state.probe_at = now + kProbeMs * kNsPerMs;
  return ++state.failures == kFailuresMax;
}

bool VolumeHealth::take_probe(std::uint16_t volume, Instant now) {
  State& state = at(volume);
  if (state.failures < kFailuresMax || now < state.probe_at) {
    return false;
  }
  state.probe_at = now + kProbeMs * kNsPerMs;
  return true;
}

}  // namespace hc
