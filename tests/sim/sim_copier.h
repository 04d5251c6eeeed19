// SPDX-License-Identifier: Apache-2.0
// sim_copier: a virtual copier. A job touches memory at one or two drawn moments and is reported at
// a later one, so that memory which came back to its client too early is caught in the act.
//
// Host memory is lane 0. Memory of a device has a lane for each direction; what is filled from
// there is not summed, and its client's own work on it, which copies may have to await, ends at a
// drawn time, or never.
//
// Held as a law here: client memory is touched only while an operation owns it (7).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/gpu/copier.h"
#include "tests/sim/fault_plan.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/trace.h"

namespace hc::sim {

class SimCopier final : public Copier {
 public:
  // Says whether an operation owns this memory now; `write`: the copier changes it.
  using MayTouch = std::function<bool(const CopyRun& run, bool write)>;

  SimCopier(SimClock& clock, Trace& trace, Laws& laws, Prng prng);

  std::uint32_t lanes() const override { return 3; }
  std::uint32_t lane_of(const CopyJob& job) const override;
  Code submit(const CopyJob& job) override;
  void poll(std::vector<CopyCompletion>& out) override;
  void wait() override;
  std::uint32_t in_flight() const override { return static_cast<std::uint32_t>(jobs_.size()); }

  // The other side of the seam.
  void set_plan(const FaultPlan& plan) { plan_ = plan; }
  void set_may_touch(MayTouch may_touch) { may_touch_ = std::move(may_touch); }
  // Told of each run of a copy that met a fault.
  void set_on_fault(std::function<void(const CopyRun& run)> on_fault) {
    on_fault_ = std::move(on_fault);
  }
  // Told of each await that ends by itself, before the copier's user is.
  void set_on_await(std::function<void(const CopyJob& job)> on_await) {
    on_await_ = std::move(on_await);
  }
  void set_jobs_max(std::uint32_t jobs_max) { jobs_max_ = jobs_max; }
  Instant next_due() const;
  // The mapping is closed: who awaits something of it hears so.
  void cancel_awaits(MappingId mapping);
  void crash() { jobs_.clear(); }
  std::uint64_t submitted() const { return submitted_; }
  // Tests: every copy from here on takes this long (0: as the plan says).
  void set_delay(std::int64_t delay_ns) { delay_ns_ = delay_ns; }

 private:
  struct Job {
    CopyJob job;
    std::vector<CopyRun> runs;   // as they were at submission
    Instant first{};             // when the first half of the bytes is copied
    Instant second{};
    Instant due{};
    std::uint64_t order = 0;
    std::uint64_t copied = 0;    // payload bytes so far
    bool faulty = false;
    bool cancelled = false;      // await
  };

  Code submit_await(const CopyJob& job);
  void run_until(Job& job, Instant now);
  void copy(Job& job, std::uint64_t until);
  CopyCompletion finish(Job& job);

  SimClock& clock_;
  Trace& trace_;
  Laws& laws_;
  Prng prng_;
  FaultPlan plan_;
  MayTouch may_touch_;
  std::function<void(const CopyRun& run)> on_fault_;
  std::function<void(const CopyJob& job)> on_await_;
  std::vector<Job> jobs_;
  std::uint32_t jobs_max_ = kCopyJobsMax;
  std::uint64_t next_order_ = 0;
  std::uint64_t submitted_ = 0;
  std::int64_t delay_ns_ = 0;
};

}  // namespace hc::sim
