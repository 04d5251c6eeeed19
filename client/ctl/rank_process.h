// SPDX-License-Identifier: Apache-2.0
// rank_process: the life of a rank process: a command in, a reply out, until the bench is done.
#pragma once

#include <cstdint>

#include "client/ctl/rank_engine.h"

namespace hc {

// Serves commands on `fd` until `close` or until the other end is gone. Returns the exit status.
int serve_rank(const RankSetup& setup, std::uint32_t rank, int fd);

}  // namespace hc
