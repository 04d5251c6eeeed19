// SPDX-License-Identifier: Apache-2.0
// copier: the seam for moving and summing payload bytes off the reactor.
//
// Client memory that can't be touched (truncated under us) ends a job with memory_fault, nothing
// else; a device that fails ends it with io_error.
//
// Jobs that may wait for each other share a lane: host memory is one, each direction of a device
// another. A full lane is busy for its own jobs only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shm/gpu/copy_job.h"

namespace hc {

class Copier {
 public:
  virtual ~Copier() = default;
  // Numbers from 0; sums are of lane 0.
  virtual std::uint32_t lanes() const { return 1; }
  virtual std::uint32_t lane_of(const CopyJob& /*job*/) const { return 0; }
  virtual Code submit(const CopyJob& job) = 0;  // busy: the lane is full; an await never is
  virtual void poll(std::vector<CopyCompletion>& out) = 0;
  virtual void wait() = 0;                      // until poll would answer; at stop only
  virtual std::uint32_t in_flight() const = 0;

  // Memory of frames comes, is about to go: the copier may make its copies of it faster.
  virtual void add_memory(std::span<std::uint8_t> /*arena*/, std::uint32_t /*frame_bytes*/) {}
  virtual void drop_memory(std::span<std::uint8_t> /*arena*/) {}
};

}  // namespace hc
