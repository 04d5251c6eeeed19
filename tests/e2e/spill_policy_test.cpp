// SPDX-License-Identifier: Apache-2.0
// spill_policy_test: what a daemon with each spill policy keeps over a flush, a stop and a kill.
#include <string>

#include "e2e/daemon_process.h"
#include "e2e/process.h"
#include "e2e/rank.h"
#include "support/catch.h"

namespace hc::test {
namespace {

DaemonOptions with_policy(const std::string& policy) {
  DaemonOptions options;
  options.spill_policy = policy;
  return options;
}

TEST_CASE("write_back: a store is told that it is not durable, a flush makes it so") {
  DaemonProcess daemon(with_policy("write_back"));
  daemon.start("clear");
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  const Keys flushed{1, 20, 0};
  const Keys dirty{100, 10, 20};

  const hicache_completion stored = rank.store(flushed, HICACHE_ACK_DURABLE);
  CHECK(stored.code == HICACHE_NOT_DURABLE);
  CHECK(stored.ack == HICACHE_ACK_RESIDENT);
  CHECK(daemon.ask("stats").at("dirty_pages") == 20);
  CHECK(daemon.ask("stats").at("dirty_bytes") == 20 * rank.options().payload_bytes);
  CHECK(daemon.ask("status").at("l3").at("spill_policy") == "write_back");
  CHECK(rank.flush().code == HICACHE_OK);
  CHECK(daemon.ask("stats").at("dirty_pages") == 0);
  CHECK(rank.store(flushed, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  CHECK(rank.store(dirty, HICACHE_ACK_RESIDENT).code == HICACHE_OK);
  const Keys leased{200, 4, 40};
  std::uint64_t op_id = 0;
  REQUIRE(rank.submit(HICACHE_VERB_STORE, leased, op_id, HICACHE_ACK_DURABLE,
                      HICACHE_STORE_KEEP_LEASE) == HICACHE_OK);
  const hicache_completion kept = rank.finish(op_id);
  CHECK(kept.code == HICACHE_NOT_DURABLE);
  REQUIRE(kept.lease != 0);
  CHECK(rank.wrong_bytes_in_lease(kept.lease, leased) == 0);
  daemon.kill_now();
  daemon.start("load");

  REQUIRE(rank.wait_serving());
  CHECK(rank.load(flushed).code == HICACHE_OK);
  CHECK(rank.wrong_bytes(flushed) == 0);
  CHECK(rank.present(dirty) == 0);
}

TEST_CASE("write_back: SIGTERM writes what is dirty before the daemon ends") {
  DaemonProcess daemon(with_policy("write_back"));
  daemon.start("clear");
  const Keys keys{1, 60, 0};
  {
    Rank rank({daemon.client_socket()});
    REQUIRE(rank.open() == HICACHE_OK);
    REQUIRE(rank.store(keys).code == HICACHE_OK);
    REQUIRE(daemon.ask("stats").at("spills") == 0);
  }
  REQUIRE(daemon.stop() == 0);
  daemon.start("load");

  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  CHECK(rank.load(keys).code == HICACHE_OK);
  CHECK(rank.wrong_bytes(keys) == 0);
}

TEST_CASE("write_back: more than memory holds is all there, byte for byte") {
  DaemonOptions options = with_policy("write_back");
  options.l2_bytes = 2U << 20;
  DaemonProcess daemon(options);
  daemon.start("clear");
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  constexpr std::uint32_t kBatches = 50;  // of 10 pages of 24,000 bytes: six times the memory
  for (std::uint32_t i = 0; i < kBatches; ++i) {
    const Keys keys{1 + i * 10, 10, 0};
    REQUIRE(eventually([&] { return rank.store(keys).code == HICACHE_OK; }));
  }
  for (std::uint32_t i = 0; i < kBatches; ++i) {
    const Keys keys{1 + i * 10, 10, 0};
    REQUIRE(rank.load(keys).code == HICACHE_OK);
    CHECK(rank.wrong_bytes(keys) == 0);
  }
  CHECK(daemon.ask("stats").at("parts_dropped_unspilled") == 0);
}

TEST_CASE("write_through_selective: a page goes to disk with its second use") {
  DaemonProcess daemon(with_policy("write_through_selective"));
  daemon.start("clear");
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  const Keys once{1, 10, 0};
  const Keys twice{100, 10, 10};
  CHECK(rank.store(once, HICACHE_ACK_DURABLE).code == HICACHE_NOT_DURABLE);
  CHECK(rank.store(twice, HICACHE_ACK_WRITTEN).code == HICACHE_NOT_DURABLE);
  CHECK(rank.store(twice, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  REQUIRE(daemon.stop() == 0);
  daemon.start("load");

  REQUIRE(rank.wait_serving());
  CHECK(rank.present(once) == 0);
  CHECK(rank.load(twice).code == HICACHE_OK);
  CHECK(rank.wrong_bytes(twice) == 0);
}

}  // namespace
}  // namespace hc::test
