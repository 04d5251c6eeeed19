// SPDX-License-Identifier: Apache-2.0
// broken_socket: breaks the control sockets of clients in this process, as nobody else would.
//
// Owner thread: any; descriptors of others are only looked at.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace hc::test {

// The descriptors of this process that are connected to `path`.
inline std::vector<int> sockets_to(const std::string& path) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    sockaddr_un peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.sun_family == AF_UNIX && path == static_cast<const char*>(peer.sun_path)) {
      found.push_back(fd);
    }
  }
  return found;
}

// Of one client; whichever, if there are more.
inline bool break_socket(const std::string& path, int how = SHUT_RDWR) {
  const std::vector<int> sockets = sockets_to(path);
  return !sockets.empty() && ::shutdown(sockets.front(), how) == 0;
}

}  // namespace hc::test
