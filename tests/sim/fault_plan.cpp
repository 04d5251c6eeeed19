// SPDX-License-Identifier: Apache-2.0
// fault_plan: a third of the seeds have no fault but crashes, so that no excuse can hide a bug.
#include "tests/sim/fault_plan.h"

namespace hc::sim {

namespace {

std::uint32_t maybe(Prng& prng, std::uint32_t rate) {
  const bool on = prng.percent(40);
  const std::uint32_t drawn = prng.between32(1, rate);
  return on ? drawn : 0;
}

}  // namespace

FaultPlan draw_fault_plan(Prng& prng) {
  FaultPlan plan;
  plan.io_delay_us = prng.between32(20, 3000);
  plan.copy_delay_us = prng.between32(5, 1000);
  plan.slow_ms = prng.between32(20, 800);
  plan.slow_io = maybe(prng, 300);
  plan.slow_copy = maybe(prng, 300);
  plan.power_cut = maybe(prng, 40);
  plan.index_lost = maybe(prng, 80);
  if (prng.one_in(3)) {
    return plan;
  }
  plan.read_error = maybe(prng, 60);
  plan.write_error = maybe(prng, 100);
  plan.write_no_space = maybe(prng, 100);
  plan.sync_error = maybe(prng, 400);
  plan.rot_once = maybe(prng, 60);
  plan.rot = maybe(prng, 60);
  plan.misdirected = maybe(prng, 100);
  plan.lost_write = maybe(prng, 100);
  plan.blocking_error = maybe(prng, 300);
  plan.commit_error = maybe(prng, 1500);
  plan.commit_dead = prng.one_in(8) ? 100 : 0;
  plan.row_damaged = maybe(prng, 200);
  plan.memory_fault = maybe(prng, 100);
  plan.index_open_error = maybe(prng, 3000);
  plan.index_visit_error = maybe(prng, 3000);
  plan.index_reset_error = prng.one_in(4) ? prng.between32(1, 5000) : 0;
  plan.transient = maybe(prng, 200);
  if (prng.percent(40)) {  // some requests are not answered in time
    plan.io_timeout_ms = prng.between32(20, 250);
    plan.slow_ms = prng.between32(2 * plan.io_timeout_ms, 800);
    plan.slow_io = prng.between32(50, 400);
  }
  return plan;
}

}  // namespace hc::sim
