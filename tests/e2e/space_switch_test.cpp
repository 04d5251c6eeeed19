// SPDX-License-Identifier: Apache-2.0
// space_switch_test: new weights in running ranks: nothing is registered anew, nothing of the old
// weights is served, and the way back finds the old pages.
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/process.h"
#include "e2e/rank.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kCallMs = 20'000;

std::size_t own_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

// What a switch must not add to.
struct Registered {
  std::uint64_t regions = 0;
  std::size_t daemon_descriptors = 0;
  std::size_t own = 0;
  friend bool operator==(const Registered&, const Registered&) = default;
};

Registered look(const DaemonProcess& daemon) {
  const auto stats = daemon.ask("stats");
  return {stats.at("regions_registered").get<std::uint64_t>(), daemon.open_descriptors(),
          own_descriptors()};
}

RankOptions rank_options(const DaemonProcess& daemon, std::uint16_t rank, std::uint16_t world) {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.rank = rank;
  options.world = world;
  return options;
}

TEST_CASE("new weights: nothing is registered anew, old pages are not served, the way back works") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank first(rank_options(daemon, 0, 2));
  Rank second(rank_options(daemon, 1, 2));
  REQUIRE(first.open() == HICACHE_OK);
  REQUIRE(second.open() == HICACHE_OK);
  const Keys keys{1, 20, 0};
  REQUIRE(first.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  REQUIRE(second.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  // Both status tables are there from here on: a space keeps its own.
  REQUIRE(first.switch_to("2", kCallMs) == HICACHE_OK);
  REQUIRE(first.switch_to("1", kCallMs) == HICACHE_OK);
  const Registered before = look(daemon);
  CHECK(before.regions == 2);

  for (int round = 0; round < 5; ++round) {
    REQUIRE(first.switch_to("2", kCallMs) == HICACHE_OK);
    if (round == 0) {  // the ranks change at different moments
      CHECK(first.present(keys) == 0);
      CHECK(first.load(keys).code == HICACHE_NOT_FOUND);
      CHECK(first.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    }
    CHECK(first.load(keys).code == HICACHE_OK);
    CHECK(first.wrong_bytes(keys) == 0);
    CHECK(second.load(keys).code == HICACHE_OK);
    CHECK(second.wrong_bytes(keys) == 0);
    REQUIRE(second.switch_to("2", kCallMs) == HICACHE_OK);
    CHECK(second.present(keys) == (round == 0 ? 0 : keys.count));
    CHECK(second.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    REQUIRE(first.switch_to("1", kCallMs) == HICACHE_OK);
    CHECK(first.present(keys) == keys.count);
    CHECK(first.load(keys).code == HICACHE_OK);
    CHECK(first.wrong_bytes(keys) == 0);
    REQUIRE(second.switch_to("1", kCallMs) == HICACHE_OK);
  }
  CHECK(look(daemon) == before);
  std::uint64_t instances = 0;
  CHECK(hicache_instances(first.client(), &instances) == HICACHE_OK);
  CHECK(instances == 1);
}

TEST_CASE("a switch ends what is in flight, and leases; nothing of it lands under new weights") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank rank(rank_options(daemon, 0, 1));
  REQUIRE(rank.open() == HICACHE_OK);
  REQUIRE(rank.store({1, 8, 0}).code == HICACHE_OK);
  const std::uint64_t lease = rank.reload({1, 8, 0}).lease;
  REQUIRE(lease != 0);
  std::vector<std::uint64_t> in_flight;
  for (std::uint32_t i = 0; i < 12; ++i) {
    std::uint64_t op_id = 0;
    REQUIRE(rank.submit(HICACHE_VERB_STORE, {100 + i * 4, 4, 8 + i * 4}, op_id,
                        HICACHE_ACK_DURABLE) == HICACHE_OK);
    in_flight.push_back(op_id);
  }

  REQUIRE(rank.switch_to("2", kCallMs) == HICACHE_OK);

  for (const std::uint64_t op_id : in_flight) {
    const hicache_code code = rank.finish(op_id).code;
    CHECK((code == HICACHE_OK || code == HICACHE_CANCELLED));
  }
  CHECK(rank.release(lease).code == HICACHE_NOT_FOUND);
  CHECK(daemon.ask("stats").at("frames_leased") == 0);
  CHECK(daemon.ask("stats").at("operations_open") == 0);
  for (std::uint32_t i = 0; i < 12; ++i) {
    CHECK(rank.present({100 + i * 4, 4, 0}) == 0);
  }
  REQUIRE(rank.switch_to("1", kCallMs) == HICACHE_OK);
  CHECK(rank.load({1, 8, 0}).code == HICACHE_OK);
  CHECK(rank.wrong_bytes({1, 8, 0}) == 0);
}

TEST_CASE("a switch that a dying daemon did not answer is asked of its successor") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank rank(rank_options(daemon, 0, 1));
  REQUIRE(rank.open() == HICACHE_OK);
  const Keys keys{1, 8, 0};
  REQUIRE(rank.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  ::kill(daemon.pid(), SIGSTOP);
  CHECK(rank.switch_to("2", 200) == HICACHE_TIMED_OUT);
  daemon.kill_now();
  daemon.start("load");

  REQUIRE(rank.wait_serving());
  CHECK(rank.load(keys).code == HICACHE_BUSY);  // nobody knows under which weights
  CHECK(rank.store(keys).code == HICACHE_BUSY);
  REQUIRE(rank.switch_to("2", kCallMs) == HICACHE_OK);
  CHECK(rank.present(keys) == 0);
  CHECK(rank.load(keys).code == HICACHE_NOT_FOUND);
  CHECK(rank.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  daemon.kill_now();
  daemon.start("load");

  REQUIRE(rank.wait_serving());  // attached again under the new weights
  CHECK(rank.load(keys).code == HICACHE_OK);
  CHECK(rank.wrong_bytes(keys) == 0);
  REQUIRE(rank.switch_to("1", kCallMs) == HICACHE_OK);
  CHECK(rank.load(keys).code == HICACHE_OK);
  CHECK(rank.wrong_bytes(keys) == 0);
}

}  // namespace
}  // namespace hc::test
