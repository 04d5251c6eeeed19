// SPDX-License-Identifier: Apache-2.0
// reactor_drain: the stop: sessions end, what must be kept goes to disk and is committed.
#include "daemon/log/log.h"
#include "daemon/reactor.h"

namespace hc {

namespace {

constexpr std::int64_t kDrainMsMax = 30'000;  // a stop gives up on stuck I/O after this
constexpr std::int64_t kDrainLookMs = 1'000;  // how often the manager hears that it goes on

}  // namespace

// Under write_back much of the memory may have to be written: as long as that goes on it may.
Result<void> Reactor::drain() {
  log_info("daemon.stopping");
  parts_.notifier.stopping();
  parts_.sessions.end_all(Code::disconnected);
  const Counters& counters = parts_.engine.core().counters;
  std::uint64_t spills = counters.spills;
  Instant limit = parts_.clock.now() + kDrainMsMax * kNsPerMs;
  while (parts_.clock.now() < limit) {
    turn();
    if (parts_.sessions.open_count() == 0 && parts_.engine.drained()) {
      log_info("daemon.stopped");
      return {};
    }
    const std::int64_t left_ns = limit - parts_.clock.now();
    if (counters.spills != spills && left_ns < (kDrainMsMax - kDrainLookMs) * kNsPerMs) {
      spills = counters.spills;
      limit = parts_.clock.now() + kDrainMsMax * kNsPerMs;
      parts_.notifier.extend_timeout(2 * std::uint64_t{kDrainMsMax} * 1000);
    }
    sleep();
  }
  return make_error(Code::timed_out, "stop: after " + std::to_string(kDrainMsMax) +
                                         " ms without a page written there were still some on "
                                         "their way to the disk");
}

}  // namespace hc
