// SPDX-License-Identifier: Apache-2.0
// unix_socket_test: listening, stale sockets, rights and peers.
#include "daemon/os/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace hc::test {

namespace {

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return UniqueFd();
  }
  return fd;
}

}  // namespace

TEST_CASE("a client is accepted with the credentials of its process") {
  const TempDir dir;
  const auto listener = UnixListener::create(dir.file("d.sock"), 0600);
  REQUIRE(listener);
  const UniqueFd client = connect_to(dir.file("d.sock"));
  REQUIRE(client);

  const auto accepted = listener->accept();
  const auto nobody = listener->accept();

  REQUIRE(accepted);
  REQUIRE(accepted->has_value());
  REQUIRE(nobody);
  CHECK_FALSE(nobody->has_value());
  const auto peer = peer_credentials((*accepted)->get());
  REQUIRE(peer);
  CHECK(peer->pid == ::getpid());
  CHECK(peer->uid == ::getuid());
  CHECK(peer->gid == ::getgid());
}

TEST_CASE("the socket has exactly the mode asked for, and goes when the listener goes") {
  const TempDir dir;
  {
    const auto listener = UnixListener::create(dir.file("d.sock"), 0640);
    REQUIRE(listener);
    struct stat info {};
    REQUIRE(::stat(dir.file("d.sock").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0640);
  }
  CHECK_FALSE(std::filesystem::exists(dir.file("d.sock")));
}

TEST_CASE("a second daemon on a live socket is refused, and the first still listens") {
  const TempDir dir;
  const auto first = UnixListener::create(dir.file("d.sock"), 0600);
  REQUIRE(first);

  const auto second = UnixListener::create(dir.file("d.sock"), 0600);

  REQUIRE_FALSE(second);
  CHECK(second.error().code == Code::refused);
  CHECK(second.error().message() == dir.file("d.sock") + ": another daemon listens here");
  CHECK(connect_to(dir.file("d.sock")).valid());
}

TEST_CASE("a socket that a dead daemon left is replaced") {
  const TempDir dir;
  {
    // Bound and closed without removing the path, as a killed process leaves it.
    const UniqueFd dead(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = dir.file("d.sock");
    std::memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  REQUIRE(std::filesystem::exists(dir.file("d.sock")));

  const auto listener = UnixListener::create(dir.file("d.sock"), 0600);

  REQUIRE(listener);
  CHECK(connect_to(dir.file("d.sock")).valid());
}

TEST_CASE("a file that is no socket is never removed") {
  const TempDir dir;
  std::ofstream(dir.file("d.sock")) << "precious";

  const auto listener = UnixListener::create(dir.file("d.sock"), 0600);

  REQUIRE_FALSE(listener);
  CHECK(listener.error().message() == dir.file("d.sock") + " exists and is no socket");
  CHECK(std::filesystem::file_size(dir.file("d.sock")) == 8);
}

TEST_CASE("a path that doesn't fit into a socket address is refused with the bound") {
  const auto listener = UnixListener::create("/" + std::string(107, 'x'), 0600);

  REQUIRE_FALSE(listener);
  CHECK(listener.error().code == Code::bad_argument);
  CHECK(listener.error().text.find("must be 1..107") != std::string::npos);
}

}  // namespace hc::test
