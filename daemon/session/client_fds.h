// SPDX-License-Identifier: Apache-2.0
// client_fds: descriptors that clients have sent, and how many of them the daemon may hold.
//
// Closing one can take as long as its sender likes, so it happens on threads of its own, and what
// waits there is bounded: a client whose descriptors do not close must not use up the daemon's.
//
// Owner: the reactor thread. Nothing here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/os/disposer.h"
#include "proto/thread_roles.h"
#include "shm/unique_fd.h"

namespace hc {

struct ClientFdLimits {
  std::uint32_t closing_max = 1024;  // that wait for their end
  std::uint32_t opening_max = 4096;  // that wait for the driver of a GPU
};

class ClientFds {
 public:
  explicit ClientFds(const ClientFdLimits& limits) : limits_(limits) {}

  // Takes the open descriptors out of `fds`.
  void close(std::vector<UniqueFd>& fds) HC_REACTOR { fds_.dispose(fds); }
  // A connection, or a listener: what was sent to it and never received ends with it.
  void close_socket(UniqueFd socket) HC_REACTOR;

  // True from `closing_max` on until half of them have ended: no descriptor may be received
  // meanwhile. Logged at both ends.
  bool check_full() HC_REACTOR;

  // Tells of an end of that, too, when nobody asks.
  void turn() HC_REACTOR { static_cast<void>(is_full_ && check_full()); }

  // Counts `count` that the driver is going to be asked about; false: too many are.
  bool begin_opening(std::size_t count) HC_REACTOR;
  // The driver is done with `fds`, which were counted.
  void end_opening(std::vector<UniqueFd>& fds) HC_REACTOR;
  std::uint32_t opening_max() const { return limits_.opening_max; }

 private:
  ClientFdLimits limits_;
  std::size_t opening_ = 0;
  bool is_full_ = false;
  Disposer fds_;
  Disposer sockets_;  // of their own: descriptors that do not close must not keep connections open
};

}  // namespace hc
