// SPDX-License-Identifier: Apache-2.0
// open_disk: the disk of a configuration.
#pragma once

#include <memory>

#include "daemon/config/config.h"
#include "daemon/os/waitable_disk.h"
#include "proto/result.h"

namespace hc {

Result<std::unique_ptr<WaitableDisk>> open_disk(const Config& config);

#ifdef HC_TEST_HOOKS
// Of tests/hooks: a disk that fails when a test says so.
std::unique_ptr<WaitableDisk> wrap_with_faults(std::unique_ptr<WaitableDisk> disk);
#endif

}  // namespace hc
