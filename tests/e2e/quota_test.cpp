// SPDX-License-Identifier: Apache-2.0
// quota_test: a guaranteed L2 quota, asked for over the C interface. daemon/engine/quota.h
#include <string>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kPayload = 24'000;
// Of a quota: header block and payload, in blocks.
constexpr std::uint32_t kQuotaPageBytes = 28'672;
constexpr std::uint32_t kPagesL2 = (8U << 20) / (2 * kQuotaPageBytes);  // both shards: 146
constexpr std::uint32_t kQuota = 100;

RankOptions quota_rank(const DaemonProcess& daemon, std::uint16_t rank, std::uint32_t pages) {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.group = pages == 0 ? "batch" : "chat";
  options.rank = rank;
  options.world = 2;
  options.payload_bytes = kPayload;
  options.quota_pages = pages;
  return options;
}

hicache_completion keep(Rank& rank, const Keys& keys) {
  std::uint64_t op_id = 0;
  REQUIRE(rank.submit(HICACHE_VERB_STORE, keys, op_id, HICACHE_ACK_RESIDENT,
                      HICACHE_STORE_KEEP_LEASE) == HICACHE_OK);
  return rank.finish(op_id);
}

TEST_CASE("ranks with a quota get their room beside another engine, and no more than that") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank batch(quota_rank(daemon, 0, 0));
  REQUIRE(batch.open() == HICACHE_OK);
  {
    Rank first(quota_rank(daemon, 0, kQuota));
    Rank second(quota_rank(daemon, 1, kQuota));
    REQUIRE(first.open() == HICACHE_OK);
    REQUIRE(second.open() == HICACHE_OK);
    const auto quota = daemon.ask("status").at("quotas").at(0);
    CHECK(quota.at("group") == "chat");
    CHECK(quota.at("sessions") == 2);
    CHECK(quota.at("reserved_pages") == kQuota);

    // 146 pages, of which 18 are for operations in flight.
    CHECK(keep(batch, {1, 40, 0}).code == HICACHE_BUSY);
    CHECK(keep(batch, {1, 20, 0}).code == HICACHE_OK);
    REQUIRE(keep(first, {1000, 50, 0}).code == HICACHE_OK);
    REQUIRE(keep(second, {1000, 50, 0}).code == HICACHE_OK);
    for (std::uint64_t page = 2000; page < 2000 + 2 * kPagesL2; page += 50) {
      REQUIRE(batch.store({page, 50, 0}).code == HICACHE_OK);
      REQUIRE(first.store({page, 50, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    }
    const hicache_completion reloaded = first.reload({2000, 50, 0});
    REQUIRE(reloaded.code == HICACHE_OK);
    CHECK(first.wrong_bytes_in_lease(reloaded.lease, {2000, 50, 0}) == 0);
    CHECK(first.reload({2050, 1, 0}).code == HICACHE_NO_SPACE);
    CHECK(daemon.ask("stats").at("quota_refused") == 1);
    CHECK(daemon.ask("status").at("quotas").at(0).at("leased_pages") == kQuota);
  }
  CHECK(daemon.ask("status").at("quotas").empty());
  CHECK(keep(batch, {1, 40, 0}).code == HICACHE_OK);
}

TEST_CASE("a quota that can't be given is refused at once, and says why") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank large(quota_rank(daemon, 0, kPagesL2));
  CHECK(large.open() == HICACHE_NO_SPACE);
  CHECK(std::string(hicache_last_error()).find("quota_bytes") != std::string::npos);
  Rank first(quota_rank(daemon, 0, kQuota));
  Rank second(quota_rank(daemon, 1, kQuota - 1));
  REQUIRE(first.open() == HICACHE_OK);
  CHECK(second.open() == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()).find("other ranks of group 'chat'") !=
        std::string::npos);
}

TEST_CASE("a rank that comes back has its quota, whatever its predecessor still leases") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank old(quota_rank(daemon, 0, kQuota));
  REQUIRE(old.open() == HICACHE_OK);
  REQUIRE(keep(old, {1, 60, 0}).code == HICACHE_OK);
  Rank rank(quota_rank(daemon, 0, kQuota + 10));
  REQUIRE(rank.open() == HICACHE_OK);

  CHECK(keep(rank, {1000, 60, 0}).code == HICACHE_OK);
  CHECK(keep(rank, {2000, 50, 0}).code == HICACHE_OK);
}

}  // namespace
}  // namespace hc::test
