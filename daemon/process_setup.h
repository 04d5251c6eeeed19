// SPDX-License-Identifier: Apache-2.0
// process_setup: what the daemon does once to its process before any thread is started.
#pragma once

#include <cstdint>

#include "proto/ids.h"
#include "shm/unique_fd.h"

namespace hc {

// SIGTERM and SIGINT are blocked for all threads and arrive at the descriptor; SIGPIPE and SIGXFSZ
// are ignored.
UniqueFd take_signals();
// Raises the soft limit of open files to the hard one.
void raise_file_limit();
// The soft limit.
std::uint64_t file_limit();
Uuid random_uuid();
std::uint64_t random_word();

}  // namespace hc
