// SPDX-License-Identifier: Apache-2.0
// unix_socket: the listening end of a Unix SEQPACKET socket, and who is on the other side.
//
// Owner: the reactor thread. Nothing here waits.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

struct PeerCredentials {
  pid_t pid = 0;  // 0 for a peer in another process namespace
  uid_t uid = 0;
  gid_t gid = 0;
};

class UnixListener {
 public:
  // Listens on `path` with permissions `mode`. A socket left over by a dead daemon is replaced,
  // but only once a refused connection has proved that nobody listens; anything else is refused.
  static Result<UnixListener> create(std::string path, mode_t mode);
  // A socket handed on by the service manager; its path is left alone at the end.
  static UnixListener adopt(UniqueFd fd) { return UnixListener({}, std::move(fd)); }

  UnixListener(UnixListener&& other) noexcept
      : path_(std::exchange(other.path_, {})), fd_(std::move(other.fd_)) {}
  UnixListener& operator=(UnixListener&&) = delete;
  // Removes the path while it still listens, so that a successor's socket is never removed.
  ~UnixListener();

  int fd() const { return fd_.get(); }
  // Removes the path, and lets nobody connect any more. The descriptor: its close ends connections
  // that nobody has accepted, and what was sent to them.
  UniqueFd end();
  // The next client that waits, non-blocking; nothing when none does, or when it has left again.
  Result<std::optional<UniqueFd>> accept() const;

 private:
  UnixListener(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

// As the kernel noted them when the peer connected.
Result<PeerCredentials> peer_credentials(int fd);
// The process at the other end of a connection, as the kernel noted it at connect. Errors: refused
// if that process is gone or the connection is over; not_found if no process can be named.
Result<UniqueFd> peer_pidfd(int socket, const PeerCredentials& peer);

}  // namespace hc
