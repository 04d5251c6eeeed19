// SPDX-License-Identifier: Apache-2.0
// lingering: a descriptor whose last close takes an hour, or until its peer has gone.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "proto/check.h"
#include "shm/unique_fd.h"

namespace hc::test {

// A connection with more in flight than its peer, the last of `peers` afterwards, has read.
inline UniqueFd lingering_socket(std::vector<UniqueFd>& peers) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  HC_CHECK(::bind(listener.get(), generic, size) == 0);
  HC_CHECK(::listen(listener.get(), 1) == 0);
  HC_CHECK(::getsockname(listener.get(), generic, &size) == 0);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  HC_CHECK(::connect(socket.get(), generic, size) == 0);
  peers.emplace_back(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const linger wait{1, 3600};
  HC_CHECK(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait) == 0);
  const std::vector<char> data(1U << 20);
  while (::send(socket.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
  }
  return socket;
}

}  // namespace hc::test
