// SPDX-License-Identifier: Apache-2.0
// socket_message: sendmsg and recvmsg with SCM_RIGHTS.
#include "shm/socket_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proto/handshake.h"

namespace hc {

namespace {

struct ControlArea {
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(int) * kMessageFdsMax)> bytes;
};

int wait_flags(SocketWait wait) { return wait == SocketWait::none ? MSG_DONTWAIT : 0; }

Error socket_error(const char* call, int error) {
  switch (error) {
    case EAGAIN:
    case ENOBUFS: return make_error(Code::busy, call, error);
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN: return make_error(Code::disconnected, call, error);
    default: return make_error(Code::io_error, call, error);
  }
}

void attach_fds(msghdr& message, ControlArea& control, std::span<const int> fds) {
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
}

std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<void> send_message(int socket, std::span<const std::uint8_t> bytes, std::span<const int> fds,
                          SocketWait wait) {
  // An empty message would look like the end of the connection.
  HC_CHECK(!bytes.empty());
  HC_CHECK(fds.size() <= kMessageFdsMax);
  iovec vector{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  ControlArea control{};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    attach_fds(message, control, fds);
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | wait_flags(wait));
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    return socket_error("sendmsg", errno);
  }
  HC_CHECK(static_cast<std::size_t>(sent) == bytes.size());
  return {};
}

Result<ReceivedMessage> receive_message(int socket, std::span<std::uint8_t> buffer,
                                        SocketWait wait, std::vector<UniqueFd>* refused_fds) {
  iovec vector{buffer.data(), buffer.size()};
  ControlArea control{};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t size = 0;
  bool reset = false;
  // A peer that closes with messages of ours unread makes one error of it, in front of all that it
  // has sent.
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | wait_flags(wait));
  } while (size < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
  if (size < 0) {
    return socket_error("recvmsg", errno);
  }
  ReceivedMessage received{static_cast<std::size_t>(size), take_fds(message)};
  const bool refused = (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0 || size == 0;
  if (refused && refused_fds != nullptr) {
    *refused_fds = std::move(received.fds);
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return make_error(Code::protocol, "message lost descriptors: more than " +
                                          std::to_string(kMessageFdsMax) +
                                          ", or the limit of open files is reached");
  }
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    return make_error(Code::protocol, "message is longer than " + std::to_string(buffer.size()) +
                                          " bytes");
  }
  if (size == 0) {
    return make_error(Code::disconnected, "the peer closed the connection");
  }
  return received;
}

// What has no room in a look is not given out, and the kernel says so.
bool next_has_fds(int socket) {
  std::array<std::uint8_t, 1> byte{};
  iovec vector{byte.data(), byte.size()};
  msghdr message{};
  ssize_t size = 0;
  int tries = 0;
  do {
    message = {};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    size = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
  } while (size < 0 && (errno == EINTR || (errno == ECONNRESET && tries++ == 0)));
  return size >= 0 && (message.msg_flags & MSG_CTRUNC) != 0;
}

}  // namespace hc
