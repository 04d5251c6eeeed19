// SPDX-License-Identifier: Apache-2.0
// reload_process: the life of a rank process of a bench with reloads.
#pragma once

#include <cstdint>

#include "client/ctl/rank_engine.h"

namespace hc {

// Serves open, run, forget and close on `fd`. `setup.reload` is given. Returns the exit status.
int serve_reload_rank(const RankSetup& setup, std::uint32_t rank, int fd);

}  // namespace hc
