// SPDX-License-Identifier: Apache-2.0
// holdings: what a daemon holds for its clients, as it and the kernel see it.
//
// Owner thread: the test's main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/ctl/admin_client.h"
#include "e2e/daemon_process.h"
#include "e2e/process.h"
#include "support/catch.h"

namespace hc::test {

// What must be back after a client has gone.
struct Holdings {
  std::uint64_t frames_leased = 0;
  std::uint64_t operations_open = 0;
  std::size_t sessions = 0;
  std::size_t descriptors = 0;
  std::size_t shared_mappings = 0;
  friend bool operator==(const Holdings&, const Holdings&) = default;
};

class Watch {
 public:
  explicit Watch(const DaemonProcess& daemon) : daemon_(daemon) {
    auto client = AdminClient::connect(daemon.admin_socket());
    REQUIRE(client.has_value());
    admin_ = std::make_unique<AdminClient>(std::move(*client));
  }

  // Through one connection, whose descriptor in the daemon counts every time.
  Holdings look() {
    const nlohmann::json stats = ask("stats");
    const nlohmann::json status = ask("status");
    return {stats.at("frames_leased").get<std::uint64_t>(),
            stats.at("operations_open").get<std::uint64_t>(), status.at("sessions").size(),
            daemon_.open_descriptors(), daemon_.shared_mappings()};
  }

  // When it stays as it is: what has ended is unmapped and closed behind its answer.
  Holdings settled() {
    Holdings at = look();
    std::uint32_t same = 0;
    REQUIRE(eventually([&] {
      const Holdings last = at;
      at = look();
      same = last == at ? same + 1 : 0;
      return same == kLooksAlike;
    }));
    return at;
  }

 private:
  static constexpr std::uint32_t kLooksAlike = 25;

  nlohmann::json ask(const std::string& verb) {
    auto answer = admin_->call(verb, nlohmann::json::object(), kPatienceMs);
    REQUIRE(answer.has_value());
    return *answer;
  }

  const DaemonProcess& daemon_;
  std::unique_ptr<AdminClient> admin_;
};

inline std::string text_of(const Holdings& at) {
  return "frames leased " + std::to_string(at.frames_leased) + ", operations " +
         std::to_string(at.operations_open) + ", sessions " + std::to_string(at.sessions) +
         ", descriptors " + std::to_string(at.descriptors) + ", shared mappings " +
         std::to_string(at.shared_mappings);
}

}  // namespace hc::test
