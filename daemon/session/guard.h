// SPDX-License-Identifier: Apache-2.0
// guard: judges what a client wrote into its ring and its operation area, after one copy.
//
// Two kinds of bad input: a broken protocol (impossible slot, unknown verb, spare bytes set) ends
// the session; a field out of range ends the operation with bad_argument.
#pragma once

#include "daemon/engine/operation.h"
#include "daemon/engine/sessions.h"
#include "proto/space.h"
#include "shm/region.h"

namespace hc {

struct Judged {
  Code code = Code::ok;  // ok: `request` may be submitted. protocol: end the session.
  OpRequest request;
};

// `entry` is a private copy; `client` is the session's client file.
Judged judge_request(const RequestEntry& entry, const Region& client,
                     const EngineSession& session, const SpaceDescriptor& space);

// What can be judged without a space, for sessions that are holding.
bool entry_keeps_protocol(const RequestEntry& entry);

}  // namespace hc
