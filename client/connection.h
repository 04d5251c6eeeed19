// SPDX-License-Identifier: Apache-2.0
// connection: the client's end of the control socket: whole messages with their descriptors.
//
// Owner threads: one thread receives (the client's background thread); sending may be done by any
// thread, one at a time. Invariants: no call waits for the daemon longer than it says; SIGPIPE is
// never raised; a message that breaks its own header is Code::protocol and nothing of it is used.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/handshake.h"
#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

using Deadline = std::chrono::steady_clock::time_point;

Deadline deadline_after_ms(std::uint64_t timeout_ms);
// What is left for poll(2), rounded up; 0 when it has passed.
int poll_timeout_ms(Deadline deadline);
// The first descriptor that is readable within the time, or -1. One of -1 is left out.
int first_readable(std::array<int, 3> fds, std::uint32_t timeout_ms);

// Descriptors that end a wait for the daemon when they turn readable; -1: none.
struct WakeFds {
  int stop = -1;   // the client is being closed
  int nudge = -1;  // the receiver has to look at its deadlines again
};

struct ControlMessage {
  MessageHeader header{};
  std::vector<std::uint8_t> body;
  std::vector<UniqueFd> fds;

  bool is(MessageType type) const { return header.type == static_cast<std::uint16_t>(type); }
  Code status() const;
  // The body as the daemon's line of text, for a status other than ok.
  std::string text() const;

  // The body starts with a `Record`; nothing if it is shorter.
  template <WireStruct Record>
  const Record* record() const;
};

class Connection {
 public:
  // disconnected: nobody listens there now.
  static Result<Connection> connect(const std::string& path);

  // ok; busy: the daemon does not read now; disconnected; io_error (too large for the socket).
  Result<void> send(MessageType type, std::uint64_t request_id, std::span<const std::uint8_t> body,
                    std::span<const int> fds);

  // Nothing more is sent: the daemon meets the end of the socket behind what was sent before, also
  // when the last message did not fit. Receiving goes on. Allocates nothing.
  void end_sending();

  // The next message, waiting until `deadline` or a nudge (timed_out) or the stop (cancelled).
  // disconnected: the daemon has closed its end.
  Result<ControlMessage> receive(Deadline deadline, WakeFds wake);
  Result<ControlMessage> receive(Deadline deadline, int stop_fd) {
    return receive(deadline, WakeFds{stop_fd, -1});
  }

  int fd() const { return fd_.get(); }

 private:
  explicit Connection(UniqueFd fd);
  Result<ControlMessage> take();

  UniqueFd fd_;
  std::vector<std::uint8_t> buffer_;
};

template <WireStruct Record>
const Record* ControlMessage::record() const {
  // Bodies come from operator new, so they are aligned for every record.
  return body.size() >= sizeof(Record) ? reinterpret_cast<const Record*>(body.data()) : nullptr;
}

}  // namespace hc
