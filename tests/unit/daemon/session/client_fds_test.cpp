// SPDX-License-Identifier: Apache-2.0
// client_fds_test: descriptors end elsewhere, and how many may wait for it is bounded.
#include "daemon/session/client_fds.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/lingering.h"

namespace hc::test {

namespace {

UniqueFd some_fd() {
  UniqueFd fd(::dup(STDERR_FILENO));
  REQUIRE(static_cast<bool>(fd));
  return fd;
}

std::vector<UniqueFd> some_fds(int count) {
  std::vector<UniqueFd> fds;
  for (int i = 0; i < count; ++i) {
    fds.push_back(some_fd());
  }
  return fds;
}

void await_room(ClientFds& fds) {
  while (fds.check_full()) {
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("Descriptors that do not close fill the place for them, until half have ended") {
  std::vector<UniqueFd> peers;
  ClientFds fds({4, 4});
  std::vector<UniqueFd> stuck;
  stuck.push_back(lingering_socket(peers));
  fds.close(stuck);
  CHECK(stuck.empty());
  auto more = some_fds(2);
  fds.close(more);
  CHECK_FALSE(fds.check_full());  // three of four

  more = some_fds(1);
  fds.close(more);

  CHECK(fds.check_full());
  peers.clear();  // nobody is there to linger for
  await_room(fds);
  CHECK_FALSE(fds.check_full());
}

TEST_CASE("A connection closes although descriptors do not, and counts with them") {
  std::vector<UniqueFd> peers;
  ClientFds fds({2, 4});
  std::vector<UniqueFd> stuck;
  stuck.push_back(lingering_socket(peers));
  fds.close(stuck);
  std::array<int, 2> pair{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0);
  const UniqueFd peer(pair[1]);

  fds.close_socket(UniqueFd(pair[0]));

  char byte = 0;
  CHECK(::recv(peer.get(), &byte, 1, 0) == 0);
  fds.close_socket(lingering_socket(peers));
  CHECK(fds.check_full());
  peers.clear();
  await_room(fds);
}

TEST_CASE("What the driver is asked about is bounded, and counted back with its end") {
  ClientFds fds({64, 4});
  CHECK(fds.opening_max() == 4);
  auto first = some_fds(3);
  REQUIRE(fds.begin_opening(first.size()));
  CHECK_FALSE(fds.begin_opening(2));
  CHECK(fds.begin_opening(0));
  CHECK(fds.begin_opening(1));

  fds.end_opening(first);

  CHECK(first.empty());
  CHECK_FALSE(fds.begin_opening(4));
  CHECK(fds.begin_opening(3));
}

}  // namespace hc::test
