// SPDX-License-Identifier: Apache-2.0
// group_death_test: what the death of a rank does to the others, also when the daemon has died
// before.
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "e2e/group_stage.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

// A rank in a process of its own: goes on until it is killed.
Child rank_process(const DaemonProcess& daemon, std::uint16_t rank, int ready_fd) {
  return Child([options = options_of(daemon, rank), ready_fd] {
    GroupRank at(options);
    if (at.open() != HICACHE_OK || !store_and_reload(at, 1).empty() || !at.fill_l1(prompt(90))) {
      return 1;
    }
    ::eventfd_write(ready_fd, 1);
    for (std::uint64_t number = 1000;; ++number) {
      static_cast<void>(at.offer(number, prompt(number)));
      if (at.pass() != HICACHE_OK) {
        return 2;
      }
    }
  });
}

// Ranks 1 and 2 here, rank 0 in the process that is killed; only its death can end their wait.
void expect_news_of_death(DaemonProcess& daemon, const std::function<void()>& before) {
  const UniqueFd ready(::eventfd(0, EFD_CLOEXEC));
  Child first = rank_process(daemon, 0, ready.get());
  std::array<hicache_code, 2> told{};
  std::array<bool, 2> kept{true, true};
  std::array<std::string, 2> said;
  std::barrier stages(3);
  std::vector<std::thread> threads;
  for (std::uint16_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      GroupRank at(options_of(daemon, static_cast<std::uint16_t>(i + 1)));
      if (at.open() != HICACHE_OK || !store_and_reload(at, 1).empty() ||
          !at.fill_l1(prompt(90))) {
        said[i] = "not reloaded";
      }
      stages.arrive_and_wait();
      stages.arrive_and_wait();
      for (std::uint64_t number = 1000; told[i] == HICACHE_OK; ++number) {
        static_cast<void>(at.offer(number, prompt(number)));
        told[i] = at.pass();
      }
      said[i] += at.offer(70, prompt(70)) == HICACHE_DECLINE_APART ? "" : "held without the others";
      stages.arrive_and_wait();
      said[i] += at.join(&kept[i]) == HICACHE_OK ? "" : "not met again";
      said[i] += store_and_reload(at, 21);
    });
  }
  std::uint64_t count = 0;
  REQUIRE(readable_within(ready.get(), kPatienceMs));
  ::eventfd_read(ready.get(), &count);
  stages.arrive_and_wait();
  before();
  stages.arrive_and_wait();
  first.kill_now();
  stages.arrive_and_wait();
  GroupRank anew(options_of(daemon, 0));
  CHECK(anew.open() == HICACHE_OK);
  CHECK(store_and_reload(anew, 21) == "");
  for (std::thread& thread : threads) {
    thread.join();
  }
  INFO(daemon.log());
  CHECK(told == std::array<hicache_code, 2>{HICACHE_DISCONNECTED, HICACHE_DISCONNECTED});
  CHECK(kept == std::array<bool, 2>{false, false});  // the one that came anew has nothing in L1
  CHECK(said == std::array<std::string, 2>{});
}

TEST_CASE("group: a killed rank is noticed, the others compute, and meet its successor") {
  DaemonProcess daemon(roomy());
  daemon.start();
  expect_news_of_death(daemon, [] {});
}

TEST_CASE("group: also by a daemon that came after the one that gave them their board") {
  DaemonProcess daemon(roomy());
  daemon.start();
  expect_news_of_death(daemon, [&] {
    daemon.kill_now();
    daemon.start();
    CHECK(eventually([&] {
      const nlohmann::json sessions = daemon.ask("status").at("sessions");
      return sessions.size() == kGroupRanks &&
             std::all_of(sessions.begin(), sessions.end(),
                         [](const nlohmann::json& session) { return session.at("board") == 1; });
    }));
  });
}

}  // namespace
}  // namespace hc::test
