// SPDX-License-Identifier: Apache-2.0
// fault_plan: which faults a seed injects and how often. Only faults that the design promises to
// survive, so every failure is a bug.
#pragma once

#include <cstdint>

#include "tests/sim/prng.h"

namespace hc::sim {

// Rates are per 10,000 requests.
struct FaultPlan {
  std::uint32_t read_error = 0;
  std::uint32_t write_error = 0;
  std::uint32_t write_no_space = 0;
  std::uint32_t sync_error = 0;
  std::uint32_t rot_once = 0;        // the read returns a flipped bit, the medium is good
  std::uint32_t rot = 0;             // the medium has a flipped bit from now on
  std::uint32_t misdirected = 0;     // acknowledged, landed in another slot
  std::uint32_t lost_write = 0;      // acknowledged, landed nowhere
  std::uint32_t blocking_error = 0;  // read_now, write_now
  std::uint32_t commit_error = 0;    // the transaction failed, nothing of it is there
  std::uint32_t index_open_error = 0;
  std::uint32_t index_visit_error = 0;  // after some rows
  std::uint32_t index_reset_error = 0;  // the old file stays, nothing can be committed
  std::uint32_t transient = 0;          // the kernel could not take a transfer: ENOMEM, ECANCELED
  std::uint32_t commit_dead = 0;     // failed, perhaps applied; every later one fails
  std::uint32_t row_damaged = 0;     // a row does not verify at the next start
  std::uint32_t memory_fault = 0;    // client memory can't be touched
  std::uint32_t slow_io = 0;         // a request takes long enough to pass deadlines
  std::uint32_t slow_copy = 0;
  std::uint32_t index_lost = 0;      // per 100 starts: the index is gone, damaged, or an old copy
  std::uint32_t power_cut = 0;       // per 100 starts: the power goes during the start
  std::uint32_t io_delay_us = 200;   // ordinary delays are up to this
  std::uint32_t copy_delay_us = 100;
  std::uint32_t slow_ms = 400;       // slow ones up to this
  std::uint32_t io_timeout_ms = 30'000;  // of the engine; slow requests may pass it
};

FaultPlan draw_fault_plan(Prng& prng);

}  // namespace hc::sim
