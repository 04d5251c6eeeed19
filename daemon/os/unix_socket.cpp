// SPDX-License-Identifier: Apache-2.0
// unix_socket: bind, listen, accept, peer credentials.
#include "daemon/os/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/os/pidfd.h"

// Linux 6.5; not in the C library of Debian 12. Older kernels answer ENOPROTOOPT.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace hc {

namespace {

constexpr int kBacklog = 64;

UniqueFd make_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Result<sockaddr_un> make_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return make_error(Code::bad_argument,
                      "socket path '" + path + "' has " + std::to_string(path.size()) +
                          " bytes: must be 1.." + std::to_string(sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* as_sockaddr(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// ok: `path` is free now.
Result<void> remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Result<void>() : make_error(Code::io_error, path, errno);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return make_error(Code::refused, path + " exists and is no socket");
  }
  const UniqueFd probe = make_socket();
  if (!probe) {
    return make_error(Code::io_error, "socket", errno);
  }
  // EAGAIN means a full backlog, so somebody listens.
  if (::connect(probe.get(), as_sockaddr(address), sizeof address) == 0 || errno == EAGAIN) {
    return make_error(Code::refused, path + ": another daemon listens here");
  }
  if (errno != ECONNREFUSED) {
    return make_error(Code::refused, path + " can't be tried", errno);
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return make_error(Code::refused, path + ": unlink", errno);
  }
  return {};
}

}  // namespace

Result<UnixListener> UnixListener::create(std::string path, mode_t mode) {
  const auto address = make_address(path);
  HC_TRY(address);
  HC_TRY_VOID(remove_stale(path, *address));
  UniqueFd fd = make_socket();
  if (!fd) {
    return make_error(Code::io_error, "socket", errno);
  }
  if (::bind(fd.get(), as_sockaddr(*address), sizeof *address) != 0) {
    return make_error(Code::refused, path + ": bind", errno);
  }
  UnixListener listener(std::move(path), std::move(fd));
  // Nobody can connect before listen, so the permissions are right from the first client on.
  if (::chmod(listener.path_.c_str(), mode) != 0) {
    return make_error(Code::io_error, listener.path_ + ": chmod", errno);
  }
  if (::listen(listener.fd(), kBacklog) != 0) {
    return make_error(Code::io_error, listener.path_ + ": listen", errno);
  }
  return listener;
}

UnixListener::~UnixListener() { static_cast<void>(end()); }

UniqueFd UnixListener::end() {
  if (fd_ && !path_.empty()) {
    ::unlink(path_.c_str());
    ::shutdown(fd_.get(), SHUT_RDWR);  // an adopted one goes on in the service manager
  }
  return std::move(fd_);
}

Result<std::optional<UniqueFd>> UnixListener::accept() const {
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) {
    return std::optional<UniqueFd>(std::move(fd));
  }
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) {
    return std::optional<UniqueFd>();
  }
  const bool out_of_files = errno == EMFILE || errno == ENFILE;
  return make_error(out_of_files ? Code::busy : Code::io_error, "accept", errno);
}

Result<PeerCredentials> peer_credentials(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return make_error(Code::io_error, "SO_PEERCRED", errno);
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

Result<UniqueFd> peer_pidfd(int socket, const PeerCredentials& peer) {
  int number = -1;
  socklen_t size = sizeof number;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &number, &size) == 0) {
    return UniqueFd(number);
  }
  if (peer.pid == 0) {
    return make_error(Code::not_found, "the peer is in another process namespace");
  }
  // An older kernel: by number. The number was the peer's own as long as the connection stood after
  // the process was named, because a reused number belongs to a process without this connection.
  auto pidfd = open_pidfd(peer.pid);
  HC_TRY(pidfd);
  pollfd entry{socket, POLLRDHUP, 0};
  if (pidfd_is_dead(pidfd->get()) || ::poll(&entry, 1, 0) != 0) {
    return make_error(Code::refused, "process " + std::to_string(peer.pid) + " has gone");
  }
  return pidfd;
}

}  // namespace hc
