// SPDX-License-Identifier: Apache-2.0
// socket_message: one SEQPACKET message with the descriptors it carries.
//
// Any thread, one at a time per direction. Knows nothing of the protocol. Received descriptors are
// owned at once, on error paths too: a peer can't leak them into us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

enum class SocketWait : std::uint8_t { none, until_done };

struct ReceivedMessage {
  std::size_t size_bytes = 0;
  std::vector<UniqueFd> fds;
};

// Sends all of `bytes` or nothing, with duplicates of at most kMessageFdsMax `fds`.
// busy: the peer's queue is full (SocketWait::none); disconnected: the peer is gone.
Result<void> send_message(int socket, std::span<const std::uint8_t> bytes, std::span<const int> fds,
                          SocketWait wait);

// Receives one message into `buffer`; every descriptor is close-on-exec.
// busy: there is none (SocketWait::none); disconnected: the peer is gone, and all that it had sent
// was received before; protocol: the message
// was larger than `buffer`, carried too many descriptors, or did not fit into our table of them.
// The descriptors of a refused message are closed, or handed out through `refused_fds` for one who
// must not close what a stranger sent.
Result<ReceivedMessage> receive_message(int socket, std::span<std::uint8_t> buffer,
                                        SocketWait wait,
                                        std::vector<UniqueFd>* refused_fds = nullptr);

// Whether the next message carries descriptors, without receiving it. No: also if there is none.
bool next_has_fds(int socket);

}  // namespace hc
