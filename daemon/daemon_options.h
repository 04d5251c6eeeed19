// SPDX-License-Identifier: Apache-2.0
// daemon_options: what the rooms are told out of the configuration.
#pragma once

#include <functional>

#include "daemon/config/config.h"
#include "daemon/engine/engine.h"
#include "daemon/session/session_server.h"

namespace hc {

// `on_progress`: called while memory is allocated.
EngineOptions engine_options(const Config& config, std::function<void()> on_progress);
// Who copies nothing of a GPU refuses its memory, and says why.
SessionServerOptions session_options(const Config& config, DeviceMemory& devices);

}  // namespace hc
