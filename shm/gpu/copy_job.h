// SPDX-License-Identifier: Apache-2.0
// copy_job: one copy between scattered runs of client memory and one contiguous frame, or the sum
// of a frame.
//
// Plain values. The memory of a job belongs to whoever runs it until its completion is there.
#pragma once

#include <cstdint>
#include <span>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/status.h"

namespace hc {

enum class CopyKind : std::uint8_t {
  gather,   // client runs -> frame (store)
  scatter,  // frame -> client runs (load)
  sum,      // frame only (verify)
  await,    // no copy: ends when the client's own work on its memory is done
};

// Client memory that the copier has opened itself: a number that it has given out.
using MappingId = std::uint32_t;
inline constexpr MappingId kHostMapping = kNone32;  // host memory, mapped by the session layer

struct CopyRun {
  std::uint64_t address = 0;  // host: where the daemon has it; else bytes from the mapping's begin
  std::uint64_t size_bytes = 0;
};

inline CopyRun host_run(std::uint8_t* data, std::uint64_t size_bytes) {
  return {reinterpret_cast<std::uintptr_t>(data), size_bytes};
}
inline std::uint8_t* host_address(const CopyRun& run) {
  return reinterpret_cast<std::uint8_t*>(static_cast<std::uintptr_t>(run.address));
}

struct CopyJob {
  CopyKind kind = CopyKind::sum;
  std::uint8_t* frame = nullptr;          // payload start in the frame
  std::uint64_t payload_bytes = 0;        // sum of the runs
  std::uint64_t padded_bytes = 0;         // gather: zeroed from payload_bytes up to here
  std::span<const CopyRun> runs;          // must stay valid until the completion; empty for sum
  std::uint64_t ticket = 0;
  MappingId mapping = kHostMapping;       // of the runs; await: of the event
  bool to_device = false;                 // await: which lane it is of
  std::uint16_t event = 0;                // await: index among the events of the mapping
};

struct CopyCompletion {
  std::uint64_t ticket = 0;
  Code code = Code::ok;             // ok, memory_fault, io_error; await also cancelled
  std::uint32_t payload_crc = 0;    // gather and sum
  bool summed = true;               // false: of a gather the frame is still to be summed
};

}  // namespace hc
