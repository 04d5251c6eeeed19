// SPDX-License-Identifier: Apache-2.0
// copier: the seam for moving and summing payload bytes off the reactor.
//
// A job copies between scattered runs of client memory and one contiguous frame, or only sums a
// frame. The memory of a job belongs to the copier until its completion was polled. Client memory
// that can't be touched (truncated under us) ends the job with memory_fault, nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/limits.h"
#include "proto/status.h"

namespace hc {

enum class CopyKind : std::uint8_t {
  gather,   // client runs -> frame, summed in the same pass (store)
  scatter,  // frame -> client runs (load)
  sum,      // frame only (verify)
};

struct CopyRun {
  std::uint8_t* data = nullptr;  // client memory as mapped by the daemon
  std::uint64_t size_bytes = 0;
};

struct CopyJob {
  CopyKind kind = CopyKind::sum;
  std::uint8_t* frame = nullptr;          // payload start in the frame
  std::uint64_t payload_bytes = 0;        // sum of the runs
  std::uint64_t padded_bytes = 0;         // gather: zeroed from payload_bytes up to here
  std::span<const CopyRun> runs;          // must stay valid until the completion; empty for sum
  std::uint64_t ticket = 0;
};

struct CopyCompletion {
  std::uint64_t ticket = 0;
  Code code = Code::ok;             // ok or memory_fault
  std::uint32_t payload_crc = 0;    // gather and sum
};

class Copier {
 public:
  virtual ~Copier() = default;
  virtual Code submit(const CopyJob& job) = 0;  // busy when kCopyJobsMax are in flight
  virtual void poll(std::vector<CopyCompletion>& out) = 0;
  virtual void wait() = 0;                      // until poll would answer; at stop only
  virtual std::uint32_t in_flight() const = 0;
};

}  // namespace hc
