// SPDX-License-Identifier: Apache-2.0
// socket_message_test: messages with descriptors, and peers that misbehave.
#include "shm/socket_message.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>

#include "proto/handshake.h"
#include "support/catch.h"
#include "support/dies.h"

namespace hc::test {

namespace {

struct Pair {
  UniqueFd left;
  UniqueFd right;
  Pair() {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) == 0);
    left = UniqueFd(fds[0]);
    right = UniqueFd(fds[1]);
  }
};

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

Result<ReceivedMessage> receive(const UniqueFd& socket, std::span<std::uint8_t> buffer) {
  return receive_message(socket.get(), buffer, SocketWait::none);
}

}  // namespace

TEST_CASE("a message arrives whole, with its boundary") {
  const Pair pair;
  std::array<std::uint8_t, 100> buffer{};
  REQUIRE(send_message(pair.left.get(), bytes_of("first"), {}, SocketWait::none));
  REQUIRE(send_message(pair.left.get(), bytes_of("second one"), {}, SocketWait::none));

  const auto first = receive(pair.right, buffer);
  REQUIRE(first);
  CHECK(std::string(buffer.begin(), buffer.begin() + 5) == "first");
  CHECK(first->size_bytes == 5);
  CHECK(first->fds.empty());
  const auto second = receive(pair.right, buffer);
  REQUIRE(second);
  CHECK(second->size_bytes == 10);
}

TEST_CASE("descriptors arrive in order, close-on-exec, and name the same files") {
  const Pair pair;
  std::array<int, 2> pipe_fds{};
  REQUIRE(::pipe(pipe_fds.data()) == 0);
  const UniqueFd reader(pipe_fds[0]);
  const UniqueFd writer(pipe_fds[1]);
  std::array<std::uint8_t, 100> buffer{};

  REQUIRE(send_message(pair.left.get(), bytes_of("x"), pipe_fds, SocketWait::none));
  const auto message = receive(pair.right, buffer);

  REQUIRE(message);
  REQUIRE(message->fds.size() == 2);
  CHECK(::fcntl(message->fds[0].get(), F_GETFD) == FD_CLOEXEC);
  REQUIRE(::write(message->fds[1].get(), "z", 1) == 1);
  char byte = 0;
  REQUIRE(::read(reader.get(), &byte, 1) == 1);
  CHECK(byte == 'z');
}

TEST_CASE("a look says whether the next message brings descriptors, and takes none of them") {
  Pair pair;
  std::array<std::uint8_t, 100> buffer{};
  CHECK_FALSE(next_has_fds(pair.right.get()));
  const std::array<int, 1> fds{STDERR_FILENO};
  REQUIRE(send_message(pair.left.get(), bytes_of("long"), {}, SocketWait::none));
  REQUIRE(send_message(pair.left.get(), bytes_of("x"), fds, SocketWait::none));

  CHECK_FALSE(next_has_fds(pair.right.get()));
  CHECK(receive(pair.right, buffer)->size_bytes == 4);
  CHECK(next_has_fds(pair.right.get()));
  CHECK(next_has_fds(pair.right.get()));
  CHECK(receive(pair.right, buffer)->fds.size() == 1);
  CHECK_FALSE(next_has_fds(pair.right.get()));

  // Behind the reset of a peer that closes with something unread.
  REQUIRE(send_message(pair.right.get(), bytes_of("unread"), {}, SocketWait::none));
  REQUIRE(send_message(pair.left.get(), bytes_of("x"), fds, SocketWait::none));
  pair.left.reset();
  CHECK(next_has_fds(pair.right.get()));
  CHECK(receive(pair.right, buffer)->fds.size() == 1);
  CHECK_FALSE(next_has_fds(pair.right.get()));
}

TEST_CASE("the largest message with the most descriptors gets through") {
  const Pair pair;
  const int size = kMessageBytesMax * 2;
  REQUIRE(::setsockopt(pair.left.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
  std::vector<std::uint8_t> sent(kMessageBytesMax, 0xAB);
  std::vector<std::uint8_t> buffer(kMessageBytesMax);
  const std::vector<int> fds(kMessageFdsMax, STDERR_FILENO);

  REQUIRE(send_message(pair.left.get(), sent, fds, SocketWait::none));
  const auto message = receive(pair.right, buffer);

  REQUIRE(message);
  CHECK(message->size_bytes == kMessageBytesMax);
  CHECK(message->fds.size() == kMessageFdsMax);
  CHECK(buffer == sent);
}

TEST_CASE("an empty queue is busy, and a closed peer is disconnected in both directions") {
  Pair pair;
  std::array<std::uint8_t, 10> buffer{};
  CHECK(receive(pair.right, buffer).error().code == Code::busy);

  pair.left.reset();

  CHECK(receive(pair.right, buffer).error().code == Code::disconnected);
  const auto sent = send_message(pair.right.get(), bytes_of("x"), {}, SocketWait::none);
  CHECK(sent.error().code == Code::disconnected);
}

TEST_CASE("what a peer sent before it closed arrives, whatever it had left unread") {
  Pair pair;
  std::array<std::uint8_t, 10> buffer{};
  REQUIRE(send_message(pair.right.get(), bytes_of("unread"), {}, SocketWait::none));
  REQUIRE(send_message(pair.left.get(), bytes_of("one"), {}, SocketWait::none));
  REQUIRE(send_message(pair.left.get(), bytes_of("goodbye"), {}, SocketWait::none));

  pair.left.reset();

  REQUIRE(receive(pair.right, buffer));
  const auto last = receive(pair.right, buffer);
  REQUIRE(last);
  CHECK(last->size_bytes == 7);
  CHECK(receive(pair.right, buffer).error().code == Code::disconnected);
}

TEST_CASE("a full queue is busy") {
  const Pair pair;
  const std::vector<std::uint8_t> bytes(4096);

  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i) {
    sent = send_message(pair.left.get(), bytes, {}, SocketWait::none);
  }

  REQUIRE_FALSE(sent);
  CHECK(sent.error().code == Code::busy);
}

TEST_CASE("a message larger than the buffer breaks the protocol, and its descriptors are closed") {
  const Pair pair;
  std::array<std::uint8_t, 4> buffer{};
  const std::array<int, 1> fds{STDERR_FILENO};
  const auto before = open_descriptors();
  REQUIRE(send_message(pair.left.get(), bytes_of("too long"), fds, SocketWait::none));

  const auto message = receive(pair.right, buffer);

  REQUIRE_FALSE(message);
  CHECK(message.error().code == Code::protocol);
  CHECK(open_descriptors() == before);
}

TEST_CASE("more descriptors than allowed break the protocol, and none is leaked") {
  const Pair pair;
  constexpr std::size_t kMany = kMessageFdsMax + 1;
  std::array<std::uint8_t, 4> buffer{};
  iovec vector{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(int) * kMany)> control{};
  msghdr raw{};
  raw.msg_iov = &vector;
  raw.msg_iovlen = 1;
  raw.msg_control = control.data();
  raw.msg_controllen = control.size();
  cmsghdr* head = CMSG_FIRSTHDR(&raw);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int) * kMany);
  const std::vector<int> fds(kMany, STDERR_FILENO);
  std::memcpy(CMSG_DATA(head), fds.data(), kMany * sizeof(int));
  const auto before = open_descriptors();
  REQUIRE(::sendmsg(pair.left.get(), &raw, 0) == 4);

  const auto message = receive(pair.right, buffer);

  REQUIRE_FALSE(message);
  CHECK(message.error().code == Code::protocol);
  CHECK(open_descriptors() == before);
}

TEST_CASE("descriptors that don't fit into our table break the protocol") {
  const Pair pair;
  std::array<std::uint8_t, 4> buffer{};
  const std::vector<int> fds(8, STDERR_FILENO);
  REQUIRE(send_message(pair.left.get(), bytes_of("x"), fds, SocketWait::none));
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old) == 0);
  const UniqueFd next(::dup(STDERR_FILENO));
  rlimit tight = old;
  tight.rlim_cur = static_cast<rlim_t>(next.get()) + 3;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);

  const auto message = receive(pair.right, buffer);

  REQUIRE(::setrlimit(RLIMIT_NOFILE, &old) == 0);
  REQUIRE_FALSE(message);
  CHECK(message.error().code == Code::protocol);
}

TEST_CASE("the descriptors of a refused message go to one who asks for them") {
  const Pair pair;
  std::array<std::uint8_t, 4> buffer{};
  const std::vector<int> fds(2, STDERR_FILENO);
  REQUIRE(send_message(pair.left.get(), bytes_of("longer than four"), fds, SocketWait::none));
  std::vector<UniqueFd> refused;

  const auto message = receive_message(pair.right.get(), buffer, SocketWait::none, &refused);

  REQUIRE_FALSE(message);
  CHECK(message.error().code == Code::protocol);
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].valid());
  CHECK(refused[1].valid());
}

TEST_CASE("an empty message is not sent: it would look like the end") {
  const Pair pair;
  CHECK(dies_by_check([&] {
    static_cast<void>(send_message(pair.left.get(), {}, {}, SocketWait::none));
  }));
}

}  // namespace hc::test
