// SPDX-License-Identifier: Apache-2.0
// waitable_disk: a Disk that the reactor can sleep on.
#pragma once

#include <string>

#include "daemon/os/disk.h"
#include "daemon/os/waitable.h"

namespace hc {

class WaitableDisk : public Disk, public Waitable {
 public:
  // "io_uring registered (defer_taskrun)", "io_uring (defer_taskrun)", "threads (8)": for the log
  // and for status.
  virtual std::string description() const = 0;
};

}  // namespace hc
