// SPDX-License-Identifier: Apache-2.0
// file_lock: an exclusive flock, waited for up to a limit.
#pragma once

#include <cstdint>
#include <string>

#include "proto/result.h"

namespace hc {

// Takes LOCK_EX on the open file itself. A predecessor that was killed holds its lock until its
// last kernel I/O is over, so a held lock is asked for again until `limit_ms` has passed; then the
// answer is `refused` and the line says that `name` is locked by another daemon.
// A blocked SIGTERM or SIGINT that is pending ends the wait with `cancelled` and stays pending.
Result<void> lock_exclusive(int fd, const std::string& name, std::uint32_t limit_ms);

}  // namespace hc
