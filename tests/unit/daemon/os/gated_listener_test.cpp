// SPDX-License-Identifier: Apache-2.0
// gated_listener_test: out of descriptors the listener rests, and later takes who has waited.
#include "daemon/os/gated_listener.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace hc::test {

TEST_CASE("gated_listener: a failed accept makes a pause, after which the connection is taken") {
  const TempDir folder;
  const std::string path = folder.file("socket");
  auto listener = UnixListener::create(path, 0600);
  REQUIRE(listener);
  auto epoll = Epoll::create();
  REQUIRE(epoll);
  GatedListener gated(*epoll, std::move(*listener), 7, "test.accept_failed");
  gated.watch();
  const UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  REQUIRE(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
          0);
  REQUIRE(epoll->wait(0).size() == 1);
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old) == 0);
  rlimit none = old;
  none.rlim_cur = 0;
  const Instant now{1'000'000'000};

  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto refused = gated.accept(now);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &old) == 0);

  CHECK_FALSE(refused);
  CHECK(gated.paused());
  CHECK(epoll->wait(0).empty());  // nothing to spin on
  gated.turn(now + (GatedListener::kPauseMs - 1) * kNsPerMs);
  CHECK(gated.paused());
  gated.turn(now + GatedListener::kPauseMs * kNsPerMs);
  CHECK_FALSE(gated.paused());
  CHECK(epoll->wait(0).size() == 1);
  CHECK(gated.accept(now));
}

}  // namespace hc::test
