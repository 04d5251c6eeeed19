// SPDX-License-Identifier: Apache-2.0
// connection: connect without waiting, send without waiting, receive with a bound.
#include "client/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proto/limits.h"
#include "shm/socket_message.h"

namespace hc {

namespace {

// Room for the largest message; the kernel grants what it allows.
constexpr int kSendBufferBytes = static_cast<int>(2 * kMessageBytesMax);

Result<MessageHeader> judge_header(std::span<const std::uint8_t> bytes, std::size_t fds) {
  MessageHeader header{};
  if (bytes.size() < sizeof header) {
    return make_error(Code::protocol, "the daemon sent a message without a header");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMessageMagic || header.bytes != bytes.size() || header.fd_count != fds) {
    return make_error(Code::protocol, "the daemon sent a message with a broken header");
  }
  return header;
}

}  // namespace

Deadline deadline_after_ms(std::uint64_t timeout_ms) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
}

int poll_timeout_ms(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, kDeadlineMsMax));
}

int first_readable(std::array<int, 3> fds, std::uint32_t timeout_ms) {
  const Deadline deadline = deadline_after_ms(timeout_ms);
  while (true) {
    std::array<pollfd, 3> ready{{{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}, {fds[2], POLLIN, 0}}};
    const int count = ::poll(ready.data(), ready.size(), poll_timeout_ms(deadline));
    for (const pollfd& entry : ready) {
      if (count > 0 && entry.revents != 0) {
        return entry.fd;
      }
    }
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return -1;
    }
  }
}

Code ControlMessage::status() const {
  return code_is_known(header.status) ? static_cast<Code>(header.status) : Code::protocol;
}

std::string ControlMessage::text() const {
  const std::size_t bytes = std::min<std::size_t>(body.size(), kNameBytesMax * 2);
  return std::string(reinterpret_cast<const char*>(body.data()), bytes);
}

Connection::Connection(UniqueFd fd) : fd_(std::move(fd)), buffer_(kMessageBytesMax) {}

Result<Connection> Connection::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return make_error(Code::bad_argument, "socket path " + path + " is too long");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return make_error(Code::io_error, "create a socket", errno);
  }
  static_cast<void>(
      ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // A full backlog (EAGAIN), no file, nobody behind it, rights of a file being replaced: all
    // may be over with the next attempt.
    return make_error(Code::disconnected, "connect to " + path, errno);
  }
  return Connection(std::move(fd));
}

Result<void> Connection::send(MessageType type, std::uint64_t request_id,
                              std::span<const std::uint8_t> body, std::span<const int> fds) {
  MessageHeader header{};
  header.magic = kMessageMagic;
  header.type = static_cast<std::uint16_t>(type);
  header.fd_count = static_cast<std::uint16_t>(fds.size());
  header.bytes = static_cast<std::uint32_t>(sizeof header + body.size());
  header.request_id = request_id;
  HC_CHECK(header.bytes <= kMessageBytesMax);
  std::vector<std::uint8_t> message(header.bytes);
  std::memcpy(message.data(), &header, sizeof header);
  if (!body.empty()) {
    std::memcpy(message.data() + sizeof header, body.data(), body.size());
  }
  return send_message(fd_.get(), message, fds, SocketWait::none);
}

void Connection::end_sending() {
  // Fails only where the daemon has closed its end: then there is nobody to tell.
  static_cast<void>(::shutdown(fd_.get(), SHUT_WR));
}

Result<ControlMessage> Connection::take() {
  auto received = receive_message(fd_.get(), buffer_, SocketWait::none);
  HC_TRY(received);
  const std::span<const std::uint8_t> bytes(buffer_.data(), received->size_bytes);
  auto header = judge_header(bytes, received->fds.size());
  HC_TRY(header);
  ControlMessage message;
  message.header = *header;
  message.body.assign(bytes.begin() + sizeof(MessageHeader), bytes.end());
  message.fds = std::move(received->fds);
  return message;
}

Result<ControlMessage> Connection::receive(Deadline deadline, WakeFds wake) {
  while (true) {
    std::array<pollfd, 3> ready{
        {{fd_.get(), POLLIN, 0}, {wake.stop, POLLIN, 0}, {wake.nudge, POLLIN, 0}}};
    const int count = ::poll(ready.data(), ready.size(), poll_timeout_ms(deadline));
    if (count < 0 && errno != EINTR) {
      return make_error(Code::io_error, "wait for the daemon", errno);
    }
    if (count > 0 && ready[1].revents != 0) {
      return make_error(Code::cancelled, "the client is being closed");
    }
    if (count > 0 && ready[0].revents != 0) {
      auto message = take();
      if (message || message.error().code != Code::busy) {
        return message;
      }
    }
    const bool nudged = count > 0 && ready[2].revents != 0;
    if (nudged || std::chrono::steady_clock::now() >= deadline) {
      return make_error(Code::timed_out, "the daemon has not answered in time");
    }
  }
}

}  // namespace hc
