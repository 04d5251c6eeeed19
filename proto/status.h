// SPDX-License-Identifier: Apache-2.0
// status: the one list of outcome codes, used inside the daemon, on the wire and in the C ABI.
//
// The numeric values are part of the protocol: append only, never renumber.
#pragma once

#include <cstdint>
#include <string_view>

namespace hc {

enum class Code : std::int32_t {
  ok = 0,
  not_found = 1,       // A miss: absent, damaged or evicted. The engine recomputes.
  busy = 2,            // A limit is reached now. Try again later; nothing was changed.
  no_space = 3,        // The tier can't hold it: disk budget, quota or memory.
  bad_argument = 4,    // The caller's field is out of range; nothing was changed.
  not_ready = 5,       // The daemon holds its cold start; an operator must say load or clear.
  disconnected = 6,    // The daemon went away, or ended this session.
  timed_out = 7,       // The deadline passed. Client memory of the operation is free again.
  cancelled = 8,       // The client cancelled it, or its session ended.
  retry = 9,           // What it waited for was forgotten or ended; the same call may succeed now.
  io_error = 10,       // The kernel or the device said no.
  corrupt = 11,        // Bytes did not verify. Inside only: clients see not_found.
  refused = 12,        // Not allowed: wrong version, wrong rights, second owner.
  superseded = 13,     // A newer session of the same group and rank took over.
  unsupported = 14,    // Known, but not available in this build or mode.
  memory_fault = 15,   // Client memory could not be touched (shrunk, unmapped).
  protocol = 16,       // A ring or socket message broke the protocol; the session ends.
  not_durable = 17,    // A store asked for the disk; the spill policy keeps its pages in memory.
};

constexpr std::string_view code_name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::not_found: return "not_found";
    case Code::busy: return "busy";
    case Code::no_space: return "no_space";
    case Code::bad_argument: return "bad_argument";
    case Code::not_ready: return "not_ready";
    case Code::disconnected: return "disconnected";
    case Code::timed_out: return "timed_out";
    case Code::cancelled: return "cancelled";
    case Code::retry: return "retry";
    case Code::io_error: return "io_error";
    case Code::corrupt: return "corrupt";
    case Code::refused: return "refused";
    case Code::superseded: return "superseded";
    case Code::unsupported: return "unsupported";
    case Code::memory_fault: return "memory_fault";
    case Code::protocol: return "protocol";
    case Code::not_durable: return "not_durable";
  }
  return "unknown";
}

constexpr bool code_is_known(std::int32_t value) { return value >= 0 && value <= 17; }

}  // namespace hc
