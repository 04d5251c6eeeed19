// SPDX-License-Identifier: Apache-2.0
// blocking_io: run one transfer to its end with blocking system calls, on the calling thread.
#pragma once

#include "daemon/os/transfer.h"

namespace hc {

DiskCompletion run_blocking(Transfer& transfer);

}  // namespace hc
