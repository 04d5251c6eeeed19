// SPDX-License-Identifier: Apache-2.0
// notify_test: what a service manager receives.
#include "daemon/os/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace hc::test {

namespace {

// Stands in for the service manager.
class Manager {
 public:
  explicit Manager(const std::string& name)
      : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') {
      address.sun_path[0] = '\0';
    }
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    REQUIRE(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  }

  std::string next() const {
    std::array<char, 512> text{};
    const ssize_t size = ::recv(fd_.get(), text.data(), text.size(), 0);
    return size < 0 ? std::string("nothing") : std::string(text.data(), static_cast<size_t>(size));
  }

 private:
  UniqueFd fd_;
};

}  // namespace

TEST_CASE("each state is one datagram in the manager's words") {
  const TempDir dir;
  const std::string abstract_name = "@" + dir.path().filename().string();
  const std::string name = GENERATE_REF(dir.file("notify"), abstract_name);
  const Manager manager(name);
  Notifier notifier(name);

  REQUIRE(notifier.active());
  notifier.ready("serving 12 pages");
  CHECK(manager.next() == "READY=1\nSTATUS=serving 12 pages");
  notifier.status("two\nlines");
  CHECK(manager.next() == "STATUS=two lines");
  notifier.watchdog();
  CHECK(manager.next() == "WATCHDOG=1");
  notifier.extend_timeout(30'000'000);
  CHECK(manager.next() == "EXTEND_TIMEOUT_USEC=30000000");
  notifier.stopping();
  CHECK(manager.next() == "STOPPING=1");
  CHECK(manager.next() == "nothing");
}

TEST_CASE("without a manager, or with one that is gone, nothing happens") {
  const TempDir dir;
  const std::string name = GENERATE_REF(std::string(), dir.file("nobody"), std::string("relative"),
                                        "/" + std::string(200, 'x'));
  Notifier notifier(name);

  CHECK(notifier.active() == !name.empty());
  notifier.ready("serving");
  notifier.stopping();
}

TEST_CASE("the watchdog interval counts only for the process it was meant for") {
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  CHECK(Notifier::watchdog_interval_us() == 30'000'000);
  ::setenv("WATCHDOG_PID", "1", 1);
  CHECK(Notifier::watchdog_interval_us() == 0);
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("WATCHDOG_PID");
  CHECK(Notifier::watchdog_interval_us() == 0);
}

TEST_CASE("the socket of the manager comes from the environment") {
  const TempDir dir;
  const Manager manager(dir.file("notify"));
  ::setenv("NOTIFY_SOCKET", dir.file("notify").c_str(), 1);
  Notifier notifier = Notifier::from_environment();
  ::unsetenv("NOTIFY_SOCKET");

  notifier.watchdog();

  CHECK(manager.next() == "WATCHDOG=1");
  CHECK_FALSE(Notifier::from_environment().active());
}

}  // namespace hc::test
