// SPDX-License-Identifier: Apache-2.0
// open_disk: the disk of a configuration.
#pragma once

#include <memory>

#include "daemon/config/config.h"
#include "daemon/os/waitable_disk.h"
#include "proto/result.h"

namespace hc {

Result<std::unique_ptr<WaitableDisk>> open_disk(const Config& config);

}  // namespace hc
