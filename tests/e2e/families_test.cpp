// SPDX-License-Identifier: Apache-2.0
// families_test: several models and several volumes on one daemon, with real processes and files.
#include <filesystem>
#include <string>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "e2e/store_audit.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kSmall = 24'000;
constexpr std::uint32_t kLarge = 150'000;

RankOptions family_rank(const DaemonProcess& daemon, std::uint32_t payload_bytes) {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.group = "engine" + std::to_string(payload_bytes);
  options.payload_bytes = payload_bytes;
  options.rows = 32;
  return options;
}

void store(Rank& rank, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t page = first; page <= last; page += 8) {
    const Keys keys{page, 8, 0};
    REQUIRE(rank.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  }
}

// Pages whose every byte is right; a miss counts for nothing, a wrong byte fails.
std::uint32_t hits(Rank& rank, std::uint64_t first, std::uint64_t last) {
  std::uint32_t found = 0;
  for (std::uint64_t page = first; page <= last; ++page) {
    const Keys keys{page, 1, 0};
    if (rank.load(keys).code == HICACHE_OK) {
      CHECK(rank.wrong_bytes(keys) == 0);
      ++found;
    }
  }
  return found;
}

TEST_CASE("two models take turns on one daemon; both are there after SIGKILL and a load") {
  DaemonOptions options;
  options.l2_bytes = 8U << 20;
  options.family_bytes = 4U << 20;
  DaemonProcess daemon(options);
  daemon.start();
  {
    Rank small(family_rank(daemon, kSmall));
    Rank large(family_rank(daemon, kLarge));
    REQUIRE(small.open() == HICACHE_OK);
    REQUIRE(large.open() == HICACHE_OK);
    for (std::uint64_t page = 1; page <= 33; page += 8) {
      store(small, page, page);
      store(large, page, page);
    }
  }
  daemon.kill_now();

  daemon.start("load");

  Rank small(family_rank(daemon, kSmall));
  Rank large(family_rank(daemon, kLarge));
  REQUIRE(small.open() == HICACHE_OK);
  REQUIRE(large.open() == HICACHE_OK);
  CHECK(hits(small, 1, 40) == 40);
  CHECK(hits(large, 1, 40) == 40);
  CHECK(daemon.ask("status").at("families") == 2);
}

TEST_CASE("a busy model takes steps of an idle one, and the files stay within the budget") {
  DaemonOptions options;
  options.l2_bytes = 8U << 20;
  options.family_bytes = 4U << 20;
  options.l3_bytes = 16U << 20;
  DaemonProcess daemon(options);
  daemon.start();
  {
    Rank small(family_rank(daemon, kSmall));
    REQUIRE(small.open() == HICACHE_OK);
    store(small, 1, 600);
    CHECK(slab_bytes_on_disk(daemon.volume()) <= options.l3_bytes);
  }

  Rank large(family_rank(daemon, kLarge));
  REQUIRE(large.open() == HICACHE_OK);
  for (std::uint64_t page = 1; page <= 160; page += 8) {
    store(large, page, page);
    CHECK(slab_bytes_on_disk(daemon.volume()) <= options.l3_bytes);
  }

  CHECK(hits(large, 121, 160) == 40);
  CHECK(daemon.ask("status").at("l3").at("steps_moved") > 0);
}

TEST_CASE("a budget lowered below use is said in one line and kept, by the oldest pages") {
  DaemonOptions options;
  options.l3_bytes = 16U << 20;
  DaemonProcess daemon(options);
  daemon.start();
  {
    Rank rank(family_rank(daemon, kSmall));
    REQUIRE(rank.open() == HICACHE_OK);
    store(rank, 1, 504);
  }
  REQUIRE(daemon.stop() == 0);
  REQUIRE(slab_bytes_on_disk(daemon.volume()) > 10U << 20);
  daemon.options().l3_bytes = 10U << 20;

  daemon.start("load");

  Rank rank(family_rank(daemon, kSmall));
  REQUIRE(rank.open() == HICACHE_OK);
  // Each of these is a commit; a step that gives way needs one.
  std::uint64_t page = 1001;
  while (slab_bytes_on_disk(daemon.volume()) > daemon.options().l3_bytes && page < 1400) {
    REQUIRE(rank.store({page++, 1, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  }
  CHECK(slab_bytes_on_disk(daemon.volume()) <= daemon.options().l3_bytes);
  CHECK(daemon.log().find("warn l3.over_budget") != std::string::npos);
  CHECK(hits(rank, 497, 504) == 8);
  CHECK(hits(rank, 1, 8) == 0);
}

TEST_CASE("pages spread over volumes; a missing one is refused by name, or dropped when asked") {
  DaemonOptions options;
  options.volume_bytes = {16U << 20, 16U << 20};
  DaemonProcess daemon(options);
  daemon.start();
  {
    Rank rank(family_rank(daemon, kSmall));
    REQUIRE(rank.open() == HICACHE_OK);
    store(rank, 1, 80);
  }
  REQUIRE(daemon.stop() == 0);
  CHECK(slab_bytes_on_disk(daemon.volume(0)) > 0);
  CHECK(slab_bytes_on_disk(daemon.volume(1)) > 0);
  daemon.start("load");
  {
    Rank rank(family_rank(daemon, kSmall));
    REQUIRE(rank.open() == HICACHE_OK);
    CHECK(hits(rank, 1, 80) == 80);
  }
  REQUIRE(daemon.stop() == 0);
  std::filesystem::rename(daemon.volume(1), daemon.volume(1) + ".away");

  CHECK(daemon.start_refused() != 0);
  CHECK(daemon.log().find("l3.volume 1 (" + daemon.volume(1) + ")") != std::string::npos);
  CHECK(daemon.log().find("missing") != std::string::npos);
  daemon.options().missing_volume = "drop";
  daemon.start("load");

  CHECK(daemon.log().find("warn volume.dropped") != std::string::npos);
  Rank rank(family_rank(daemon, kSmall));
  REQUIRE(rank.open() == HICACHE_OK);
  const std::uint32_t left = hits(rank, 1, 80);
  CHECK(left > 0);
  CHECK(left < 80);
  store(rank, 201, 280);
  CHECK(hits(rank, 201, 280) == 80);
}

TEST_CASE("a volume of another store, and volumes in another order, are refused in one line") {
  DaemonOptions options;
  options.volume_bytes = {16U << 20, 16U << 20, 16U << 20};
  DaemonProcess daemon(options);
  daemon.start();
  REQUIRE(daemon.stop() == 0);
  std::filesystem::rename(daemon.volume(1), daemon.volume(1) + ".away");
  std::filesystem::rename(daemon.volume(2), daemon.volume(1));
  std::filesystem::rename(daemon.volume(1) + ".away", daemon.volume(2));

  CHECK(daemon.start_refused() != 0);
  CHECK(daemon.log().find("list the volumes in the order they had") != std::string::npos);

  DaemonProcess other(options);
  other.start();
  REQUIRE(other.stop() == 0);
  std::filesystem::remove_all(daemon.volume(1));
  std::filesystem::rename(other.volume(1), daemon.volume(1));
  CHECK(daemon.start_refused() != 0);
  CHECK(daemon.log().find("belongs to another store") != std::string::npos);
}

}  // namespace
}  // namespace hc::test
