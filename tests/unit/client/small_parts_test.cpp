// SPDX-License-Identifier: Apache-2.0
// small_parts_test: the parts with one behaviour each: client/last_error.cpp,
// client/fork_guard.cpp, client/lease_table.cpp and client/connection.cpp.
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "client/connection.h"
#include "client/fork_guard.h"
#include "client/last_error.h"
#include "client/lease_table.h"
#include "shm/doorbell.h"
#include "shm/socket_message.h"
#include "support/catch.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

TEST_CASE("the last error is one line of the calling thread, cut at its end") {
  CHECK(fail(Code::busy, "first\nsecond") == HICACHE_BUSY);
  CHECK(std::string(last_error()) == "first second");

  std::thread([] { CHECK(std::string(last_error()).empty()); }).join();

  set_last_error(std::string(2 * kLastErrorBytes, 'x'));
  CHECK(std::strlen(last_error()) == kLastErrorBytes - 1);
}

TEST_CASE("a fork guard tells the child of a fork from its parent") {
  const ForkGuard guard;
  REQUIRE(guard.works());

  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(guard.in_child() ? 42 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);

  CHECK(WEXITSTATUS(status) == 42);
  CHECK_FALSE(guard.in_child());
}

Lease lease_of(std::uint64_t daemon_lease) {
  Lease lease;
  lease.attachment = 1;
  lease.daemon_lease = LeaseId{daemon_lease};
  lease.page_count = 1;
  lease.kind_count = 1;
  lease.frames.resize(1);
  return lease;
}

TEST_CASE("a lease handle is never given twice, even for the same lease of the daemon") {
  LeaseTable table;
  const std::uint64_t first = table.add(lease_of(9));

  table.erase(first);
  const std::uint64_t second = table.add(lease_of(9));

  CHECK(first != 0);
  CHECK(second != first);
  CHECK(table.find(first) == nullptr);
  REQUIRE(table.find(second) != nullptr);
  CHECK(table.find(second)->daemon_lease == LeaseId{9});
}

TEST_CASE("an ended lease stays until it is released") {
  LeaseTable table;
  const std::uint64_t handle = table.add(lease_of(9));

  table.end_all();

  REQUIRE(table.find(handle) != nullptr);
  CHECK_FALSE(table.find(handle)->alive);
}

TEST_CASE("the list of what is held leaves out what has ended or was given up") {
  LeaseTable table;
  const std::uint64_t ended = table.add(lease_of(9));
  table.end_all();
  const std::uint64_t held = table.add(lease_of(10));
  const std::uint64_t before = table.add(lease_of(11));
  const std::uint64_t after = table.add(lease_of(12));

  table.give_up(before);
  CHECK(table.list().size() == 2);
  table.give_up(after);
  table.keep_listed();

  CHECK(table.find(held) != nullptr);
  CHECK(table.find(before) == nullptr);  // the daemon has ended it
  REQUIRE(table.find(after) != nullptr);  // the daemon still has it
  CHECK(table.find(after)->given_up);
  CHECK(table.find(ended) != nullptr);
  table.end_all();
  CHECK(table.find(after) == nullptr);
  CHECK(table.ends() == 2);
}

// A listening socket whose other end the test plays by hand.
struct Listener {
  test::SocketFolder folder;
  std::string path = folder.socket();
  UniqueFd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  Listener() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd.get(), 4) == 0);
  }
};

MessageHeader header_of(std::uint32_t bytes) {
  MessageHeader header{};
  header.magic = kMessageMagic;
  header.type = static_cast<std::uint16_t>(MessageType::reply);
  header.bytes = bytes;
  header.request_id = 7;
  return header;
}

TEST_CASE("connecting where nobody listens is disconnected") {
  const test::SocketFolder folder;

  const auto connection = Connection::connect(folder.socket());

  REQUIRE_FALSE(connection.has_value());
  CHECK(connection.error().code == Code::disconnected);
  CHECK(connection.error().message().find(folder.socket()) != std::string::npos);
}

TEST_CASE("a message with a broken header is a protocol error") {
  Listener listener;
  auto connection = Connection::connect(listener.path);
  REQUIRE(connection.has_value());
  const UniqueFd peer(::accept(listener.fd.get(), nullptr, nullptr));
  auto stop = make_doorbell();
  REQUIRE(stop.has_value());
  const auto receive = [&] { return connection->receive(deadline_after_ms(30000), stop->get()); };
  const auto send = [&](const MessageHeader& header, std::size_t bytes) {
    std::vector<std::uint8_t> message(sizeof header, 0);
    std::memcpy(message.data(), &header, sizeof header);
    message.resize(bytes);
    REQUIRE(send_message(peer.get(), message, {}, SocketWait::none).has_value());
  };

  send(header_of(24), 24);
  auto good = receive();
  REQUIRE(good.has_value());
  CHECK(good->header.request_id == 7);

  send(header_of(24), 10);
  CHECK(receive().error().code == Code::protocol);
  send(header_of(24), 25);
  CHECK(receive().error().code == Code::protocol);
  MessageHeader wrong = header_of(24);
  wrong.magic ^= 1;
  send(wrong, 24);
  CHECK(receive().error().code == Code::protocol);
  wrong = header_of(24);
  wrong.fd_count = 1;
  send(wrong, 24);
  CHECK(receive().error().code == Code::protocol);
}

TEST_CASE("receiving ends at its deadline, at the stop signal, and at the end of the socket") {
  Listener listener;
  auto connection = Connection::connect(listener.path);
  REQUIRE(connection.has_value());
  UniqueFd peer(::accept(listener.fd.get(), nullptr, nullptr));
  auto stop = make_doorbell();
  REQUIRE(stop.has_value());

  CHECK(connection->receive(deadline_after_ms(0), stop->get()).error().code == Code::timed_out);
  peer.reset();
  CHECK(connection->receive(deadline_after_ms(30000), stop->get()).error().code ==
        Code::disconnected);
  REQUIRE(ring_doorbell(stop->get()) == Code::ok);
  CHECK(connection->receive(deadline_after_ms(30000), stop->get()).error().code == Code::cancelled);
}

}  // namespace
}  // namespace hc
