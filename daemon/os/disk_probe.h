// SPDX-License-Identifier: Apache-2.0
// disk_probe: choose the Disk back end: what was asked for, or the best that works here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/os/volume_disk.h"

namespace hc {

struct DiskOptions {
  std::vector<std::string> dirs;         // the volumes, by number
  DiskBackend backend = DiskBackend::automatic;
  std::uint32_t lock_retry_ms = 60'000;  // for a predecessor whose last I/O is still in the kernel
  std::uint32_t io_threads = 8;          // threads back end, for each volume
  std::uint64_t registered_bytes = 0;    // memory that requests will name, for uring_fixed
};

// Called on the reactor thread, which owns the result. `automatic` tries each back end with one
// real write and read, the best first, and steps down with one log line that says why. A back end
// asked for by name that does not work is an error.
Result<std::unique_ptr<VolumeDisk>> make_disk(const DiskOptions& options);

}  // namespace hc
