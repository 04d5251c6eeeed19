// SPDX-License-Identifier: Apache-2.0
// faulty_disk: a disk whose volumes fail when a test says so, around the real one.
//
// Owner: the reactor thread. The test says so in a file that both map ($HICACHE_DISK_FAULTS); every
// request looks there. A held request is not given to the real disk until the volume lets go, so
// its memory stays its own, as with a device that does not answer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "daemon/os/waitable_disk.h"
#include "proto/limits.h"

namespace hc {

struct VolumeFaults {
  std::atomic<std::uint32_t> read_errno;   // 0: well
  std::atomic<std::uint32_t> write_errno;  // also of flushes and ranges
  std::atomic<std::uint32_t> holds;        // not 0: nothing is answered
  std::atomic<std::uint32_t> held;         // requests that wait, for the test to see
};

struct DiskFaults {
  std::array<VolumeFaults, kVolumesMax> volumes;
};

// The disk itself where the variable is not set.
std::unique_ptr<WaitableDisk> wrap_with_faults(std::unique_ptr<WaitableDisk> disk);

}  // namespace hc
