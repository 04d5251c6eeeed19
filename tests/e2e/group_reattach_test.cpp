// SPDX-License-Identifier: Apache-2.0
// group_reattach_test: a rank of a group whose session breaks, while its daemon lives, costs the
// group what that rank had in flight, and nothing that lies in L2.
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <string>
#include <vector>

#include "e2e/broken_socket.h"
#include "e2e/daemon_process.h"
#include "e2e/group_stage.h"
#include "e2e/process.h"
#include "support/catch.h"

namespace hc::test {
namespace {

std::size_t attaches(const DaemonProcess& daemon) {
  const std::string log = daemon.log();
  std::size_t count = 0;
  for (auto at = log.find("session.attached"); at != std::string::npos;
       at = log.find("session.attached", at + 1)) {
    ++count;
  }
  return count;
}

// Breaks so many of the ranks' sessions, and waits until they have new ones.
bool break_sessions(const DaemonProcess& daemon, std::size_t count) {
  const std::size_t wanted = attaches(daemon) + count;
  const std::vector<int> sockets = sockets_to(daemon.client_socket());
  bool broken = sockets.size() == kGroupRanks;
  for (std::size_t i = 0; broken && i < count; ++i) {
    broken = ::shutdown(sockets[i], SHUT_RDWR) == 0;
  }
  return broken && eventually([&] { return attaches(daemon) >= wanted; });
}

TEST_CASE("group: ranks that attach again keep L2 on all ranks, and go on") {
  DaemonProcess daemon(roomy());
  daemon.start();
  std::barrier gate(kGroupRanks + 1);
  bool broken = true;
  const Script script = [&](GroupRank& at, std::uint16_t) {
    std::string said = store_and_reload(at, 1);
    for (int round = 0; round < 2; ++round) {
      gate.arrive_and_wait();
      gate.arrive_and_wait();
      said += at.rank().wait_serving() ? "" : "not attached again";
      said += at.match(prompt(4)).l2_pages == kPromptPages ? "" : "the newest prompt is not in L2";
      said += at.match(prompt(1)).l2_pages == kPromptPages ? "" : "the reload is not in L2";
      // What is open makes the ranks speak to each other of what they have lost.
      said += at.offer(50 + static_cast<std::uint64_t>(round), prompt(90)) == HICACHE_DECLINE_NONE
                  ? ""
                  : "not held";
      said += at.decided(50 + static_cast<std::uint64_t>(round)) ? "admitted from nowhere" : "";
      said += at.wrong_bytes(prompt(4)) == 0 ? "" : "wrong bytes";
    }
    said += store_and_reload(at, 11);
    said += at.l2_drops() == 0 ? "" : "L2 was dropped";
    return said + (at.divergences() == 0 ? "" : "diverged");
  };
  run_ranks(daemon, script, {.meanwhile = [&] {
              for (const std::size_t count : {std::size_t{1}, std::size_t{kGroupRanks}}) {
                gate.arrive_and_wait();
                broken = break_sessions(daemon, count) && broken;
                gate.arrive_and_wait();
              }
            }});
  CHECK(broken);
  CHECK(eventually([&] { return daemon.ask("stats").at("frames_leased") == 0; }));
}

// Whatever fails in between, the ranks decide the same, and nothing is dropped.
TEST_CASE("group: sessions that break under stores and reloads cost these, and no L2") {
  DaemonProcess daemon(roomy());
  daemon.start();
  std::barrier gate(kGroupRanks + 1);
  std::atomic<int> ranks_left = kGroupRanks;
  bool broken = true;
  const Script script = [&](GroupRank& at, std::uint16_t) {
    std::string said = store_and_reload(at, 1);
    gate.arrive_and_wait();
    for (std::uint64_t round = 0; round < 6; ++round) {
      static_cast<void>(at.compute(prompt(11 + round % 5)));
      if (at.offer(100 + round, prompt(11 + (round + 2) % 5)) == HICACHE_DECLINE_NONE) {
        static_cast<void>(at.decided(100 + round));
      }
    }
    --ranks_left;
    ranks_left.notify_all();
    for (int left = ranks_left; left > -1; left = ranks_left) {  // until nothing is broken any more
      ranks_left.wait(left);
    }
    said += at.rank().wait_serving() ? "" : "not attached again";
    said += store_and_reload(at, 31);
    said += at.l2_drops() == 0 ? "" : "L2 was dropped";
    return said + (at.divergences() == 0 ? "" : "diverged");
  };
  run_ranks(daemon, script, {.meanwhile = [&] {
              gate.arrive_and_wait();
              while (ranks_left > 0) {
                const std::size_t before = attaches(daemon);
                static_cast<void>(break_socket(daemon.client_socket()));
                eventually([&] { return ranks_left <= 0 || attaches(daemon) > before; });
              }
              broken = attaches(daemon) > kGroupRanks;
              ranks_left = -1;
              ranks_left.notify_all();
            }});
  CHECK(broken);
  CHECK(eventually([&] { return daemon.ask("stats").at("frames_leased") == 0; }));
}

}  // namespace
}  // namespace hc::test
