// SPDX-License-Identifier: Apache-2.0
// cold_start_test: what a killed daemon's successor does with the pages on disk.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "e2e/weights.h"

namespace hc::test {
namespace {

constexpr Keys kKeys{1, 50, 0};

void kill_and_start(DaemonProcess& daemon, const std::string& mode) {
  daemon.kill_now();
  daemon.start(mode);
}

std::uint32_t pages_there(const DaemonProcess& daemon, const Keys& keys,
                          const std::string& weights = "1") {
  Rank rank(rank_of(daemon, weights));
  REQUIRE(rank.open() == HICACHE_OK);
  return rank.present(keys);
}

// Every page is there and every byte is right.
void expect_all(const DaemonProcess& daemon, const Keys& keys, const std::string& weights = "1") {
  Rank rank(rank_of(daemon, weights));
  REQUIRE(rank.open() == HICACHE_OK);
  CHECK(rank.present(keys) == keys.count);
  const hicache_completion loaded = rank.load(keys);
  CHECK(loaded.code == HICACHE_OK);
  CHECK(loaded.pages_from_l3 == keys.count);
  CHECK(rank.wrong_bytes(keys) == 0);
}

void expect_none(const DaemonProcess& daemon, const Keys& keys) {
  Rank rank(rank_of(daemon));
  REQUIRE(rank.open() == HICACHE_OK);
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    CHECK(rank.present({keys.first + i, 1, 0}) == 0);
    CHECK(rank.load({keys.first + i, 1, 0}).code == HICACHE_NOT_FOUND);
  }
}

TEST_CASE("load: after SIGKILL every durable page is there, byte for byte") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);

  kill_and_start(daemon, "load");

  expect_all(daemon, kKeys);
  CHECK(daemon.ask("status").at("load").at("live") == kKeys.count);
  CHECK(daemon.log().find(" info load.done pages=" + std::to_string(kKeys.count)) !=
        std::string::npos);
}

TEST_CASE("load: what a damaged disk has lost is a warning, with its cause and its extent") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);
  daemon.kill_now();
  std::string slab;
  for (const auto& entry : std::filesystem::directory_iterator(daemon.volume())) {
    if (entry.path().filename().string().rfind("slab", 0) == 0) {
      slab = entry.path().string();
    }
  }
  REQUIRE(::truncate(slab.c_str(), 64 << 10) == 0);
  const std::string superblock = daemon.volume() + "/superblock";
  const UniqueFd file(::open(superblock.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(::pwrite(file.get(), "damage", 6, 0) == 6);

  daemon.start("load");

  const std::string log = daemon.log();
  CHECK(log.find("warn superblock.copy_damaged") != std::string::npos);
  CHECK(log.find("warn slab.lost") != std::string::npos);
  CHECK(log.find("warn load.incomplete") != std::string::npos);
  CHECK(pages_there(daemon, kKeys) == 0);
}

TEST_CASE("load: lazily after SIGKILL it serves every page, and reads the headers behind") {
  DaemonOptions options;
  options.load_verify = "lazy";
  DaemonProcess daemon(options);
  daemon.start();
  store_durably(daemon, kKeys);

  kill_and_start(daemon, "load");

  expect_all(daemon, kKeys);
  CHECK(eventually([&] {
    return daemon.ask("status").at("load").at("slots_scanned") == kKeys.count;
  }));
  const nlohmann::json load = daemon.ask("status").at("load");
  CHECK(load.at("live") == kKeys.count);
  CHECK(load.at("dropped") == 0);
}

TEST_CASE("load: a manager that listens late still hears that the daemon is ready") {
  DaemonProcess daemon;
  daemon.start();
  {
    Rank rank(rank_of(daemon));
    REQUIRE(rank.open() == HICACHE_OK);
    for (std::uint64_t page = 0; page < 1500; page += 50) {
      REQUIRE(rank.store({page, 50, 0}, HICACHE_ACK_WRITTEN).code == HICACHE_OK);
    }
    REQUIRE(rank.flush().code == HICACHE_OK);
  }
  daemon.kill_now();

  // A load takes many turns, and the socket of the manager holds few messages.
  CHECK(daemon.start_unheard());
}

TEST_CASE("load: pages stored after it never land on live ones") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);
  kill_and_start(daemon, "load");

  const Keys later{1000, 60, 0};
  store_durably(daemon, later);
  kill_and_start(daemon, "load");

  expect_all(daemon, kKeys);
  expect_all(daemon, later);
}

TEST_CASE("clear: starts empty, and the old pages never come back") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);

  kill_and_start(daemon, "clear");
  expect_none(daemon, {kKeys.first, 5, 0});
  CHECK(pages_there(daemon, kKeys) == 0);
  const Keys others{500, 10, 0};
  store_durably(daemon, others);

  kill_and_start(daemon, "load");
  CHECK(pages_there(daemon, kKeys) == 0);
  expect_none(daemon, {kKeys.first, 5, 0});
  expect_all(daemon, others);
}

TEST_CASE("hold: attaches, knows nothing, serves nothing until the operator says load") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);
  kill_and_start(daemon, "hold");
  CHECK(daemon.ask("status").at("state") == "holding");
  Rank rank(rank_of(daemon));
  REQUIRE(rank.open() == HICACHE_OK);

  CHECK(hicache_state(rank.client()) == HICACHE_NOT_READY);
  CHECK(rank.present(kKeys) == 0);
  CHECK(rank.store({900, 1, 0}).code == HICACHE_NOT_READY);
  CHECK(rank.load({1, 1, 0}).code == HICACHE_NOT_READY);
  CHECK(rank.reload({1, 1, 0}).code == HICACHE_NOT_READY);
  CHECK(rank.pin({1, 1, 0}).code == HICACHE_NOT_READY);
  CHECK(rank.free_pages({1, 1, 0}).code == HICACHE_NOT_READY);
  const Outcome early = daemon.cachectl({"flush"});
  CHECK(early.status == 1);
  CHECK(missing(early.err, {"cold start"}) == "");

  const Outcome order = daemon.cachectl({"cold-start", "load", "--wait"});
  CHECK(order.status == 0);
  CHECK(missing(order.out, {"done"}) == "");
  REQUIRE(rank.wait_serving());
  CHECK(rank.present(kKeys) == kKeys.count);
  CHECK(rank.load(kKeys).code == HICACHE_OK);
  CHECK(rank.wrong_bytes(kKeys) == 0);
  CHECK(daemon.ask("status").at("state") == "serving");
}

TEST_CASE("hold: the operator may also say clear") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);
  kill_and_start(daemon, "hold");

  CHECK(daemon.cachectl({"cold-start", "clear"}).status == 0);

  CHECK(pages_there(daemon, kKeys) == 0);
  kill_and_start(daemon, "load");
  CHECK(pages_there(daemon, kKeys) == 0);
}

TEST_CASE("hold: a stop loses nothing, and the next start may load") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);
  kill_and_start(daemon, "hold");

  CHECK(daemon.stop() == 0);

  daemon.start("load");
  expect_all(daemon, kKeys);
}

TEST_CASE("cold-start outside hold is refused, with a hint at what to do instead") {
  DaemonProcess daemon;
  daemon.start();

  for (const std::string mode : {"load", "clear"}) {
    const Outcome outcome = daemon.cachectl({"cold-start", mode});

    CHECK(outcome.status == 1);
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(missing(outcome.err, {"holds", "cachectl clear"}) == "");
  }
}

TEST_CASE("free_object: once it has completed, no crash brings the page back") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);
  const Keys freed{kKeys.first + 10, 20, 0};
  {
    Rank rank(rank_of(daemon));
    REQUIRE(rank.open() == HICACHE_OK);
    REQUIRE(rank.free_pages(freed).code == HICACHE_OK);
    CHECK(rank.present(freed) == 0);
  }

  kill_and_start(daemon, "load");

  expect_none(daemon, freed);
  expect_all(daemon, {kKeys.first, 10, 0});
  expect_all(daemon, {freed.first + freed.count, 20, 0});
}

TEST_CASE("clear --space: drops one space for good and leaves the others") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys, "1");
  store_durably(daemon, kKeys, "2");
  std::string first;
  const nlohmann::json spaces = daemon.ask("spaces").at("spaces");
  for (const auto& space : spaces) {
    if (space.at("weight_version") == "1") {
      first = space.at("space_id").get<std::string>();
    }
  }
  REQUIRE(first.size() == 64);

  const Outcome outcome =
      daemon.cachectl({"clear", "--space", first.substr(0, 12), "--yes", "--json"});

  REQUIRE(outcome.status == 0);
  CHECK(nlohmann::json::parse(outcome.out).at("pages_dropped") == kKeys.count);
  CHECK(pages_there(daemon, kKeys, "1") == 0);
  kill_and_start(daemon, "load");
  CHECK(pages_there(daemon, kKeys, "1") == 0);
  expect_none(daemon, {kKeys.first, 5, 0});
  expect_all(daemon, kKeys, "2");
}

TEST_CASE("clear: drops everything for good, and the daemon goes on") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys);

  const Outcome outcome = daemon.cachectl({"clear", "--yes"});

  REQUIRE(outcome.status == 0);
  CHECK(pages_there(daemon, kKeys) == 0);
  const Keys others{2000, 10, 0};
  store_durably(daemon, others);
  kill_and_start(daemon, "load");
  CHECK(pages_there(daemon, kKeys) == 0);
  expect_none(daemon, {kKeys.first, 5, 0});
  expect_all(daemon, others);
}

TEST_CASE("Weights of another version never answer for these") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kKeys, "1");

  CHECK(pages_there(daemon, kKeys, "2") == 0);
  kill_and_start(daemon, "load");

  CHECK(pages_there(daemon, kKeys, "2") == 0);
  expect_all(daemon, kKeys, "1");
}

}  // namespace
}  // namespace hc::test
