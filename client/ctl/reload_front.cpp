// SPDX-License-Identifier: Apache-2.0
// reload_front: arrivals, aborts, restarts, and the end.
#include "client/ctl/reload_front.h"

#include <sys/eventfd.h>

#include "client/ctl/monotonic.h"

namespace hc {

ReloadFront::ReloadFront(const RankSetup& setup)
    : setup_(setup),
      share_(*setup.reload),
      draws_(share_.plan.chaos, share_.plan.seed, 0),
      begin_ns_(monotonic_ns()) {}

bool ReloadFront::has_daemon() {
  const auto& restarts = setup_.plan.restart_at;
  if (restarts_ == restarts.size() || restarts[restarts_] != next_) {
    return true;
  }
  if (!has_asked_) {
    has_asked_ = true;
    static_cast<void>(::eventfd_write(share_.notice_fd, 1));
  }
  if (share_.bus.restarts() <= restarts_) {
    return false;
  }
  has_asked_ = false;
  ++restarts_;
  return true;
}

bool ReloadFront::is_due(std::uint64_t now_ns) const {
  const ReloadPlan& plan = share_.plan;
  double due_s = 0;
  if (plan.rate > 0) {
    due_s = static_cast<double>(next_) / plan.rate;
  } else if (plan.time_scale > 0) {
    const std::uint64_t begin_ms = setup_.trace.request(0).timestamp_ms;
    const std::uint64_t at_ms = setup_.trace.request(next_).timestamp_ms;
    due_s = at_ms <= begin_ms ? 0.0
                              : static_cast<double>(at_ms - begin_ms) / 1e3 / plan.time_scale;
  }
  return static_cast<double>(now_ns - begin_ns_) >= due_s * 1e9;
}

TickInput ReloadFront::next(const View& view) {
  TickInput input;
  input.first_arrival = next_;
  const std::uint64_t total = setup_.trace.request_count();
  if (next_ == total && view.waiting == 0 && view.unsettled == 0) {
    input.stop = 1;
    return input;
  }
  const std::uint64_t now_ns = monotonic_ns();
  const std::uint64_t room = share_.plan.concurrency;
  while (next_ < total && (room == 0 || view.waiting + input.arrivals < room) && is_due(now_ns) &&
         has_daemon()) {
    ++next_;
    ++input.arrivals;
  }
  if (const auto aborted = draws_.aborted(view.held.size())) {
    input.aborted = view.held[*aborted];
  }
  return input;
}

}  // namespace hc
