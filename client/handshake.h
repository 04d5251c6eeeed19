// SPDX-License-Identifier: Apache-2.0
// handshake: one attempt to attach: socket, memory files, replies, arenas, known regions.
//
// Owner thread: the client's background thread; nothing here takes the client's mutex. Invariants:
// either everything of the session is mapped and judged, or nothing of the attempt remains.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/open_arguments.h"
#include "client/region_table.h"
#include "client/session.h"
#include "proto/result.h"

namespace hc {

// The session before, at whose daemon the leases may still be.
struct PreviousSession {
  Uuid daemon{};
  std::uint64_t serial = 0;
  UniqueFd daemon_pidfd;
};

struct AttachPlan {
  OpenPlan open;  // with the space as it is now
  Uuid previous_daemon{};
  std::uint64_t previous_session = 0;  // 0: none
  std::vector<LeaseId> leases;         // of it, that are to be kept
  std::uint32_t attachment = 1;
  std::vector<std::shared_ptr<const KnownRegion>> regions;  // registered again
  Deadline deadline;
  int stop_fd = -1;
};

struct Attached {
  std::shared_ptr<Session> session;
  // Regions of the plan that the daemon will not have, by number, with its line.
  std::map<std::uint32_t, std::string> refused_regions;
};

Result<Attached> attach(const AttachPlan& plan);

// Judges the descriptor of a status table from the daemon.
Result<StatusTableReader> open_status_table(ControlMessage& message, std::size_t fd_index,
                                            std::uint64_t size_bytes);

// The arenas of one `arenas` message. protocol: counts that do not fit.
Result<void> add_arenas(ControlMessage& message, ArenaView& arenas);

}  // namespace hc
