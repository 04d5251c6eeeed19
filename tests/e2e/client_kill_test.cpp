// SPDX-License-Identifier: Apache-2.0
// client_kill_test: a client killed at any moment leaves nothing behind in the daemon.
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/holdings.h"
#include "e2e/rank.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kClientPages = 2000;
constexpr std::uint32_t kClientBatch = 4;
constexpr std::uint32_t kAtOnce = 8;      // operations in flight
constexpr std::size_t kLeasesHeld = 12;
// By hand ($HC_E2E_KILLS) the promise of one second is held to; in CI a busy machine may be slow.
constexpr int kPromisedMs = 1000;

struct Plan {
  std::string socket;
  std::uint32_t seed;
  int progress;  // eventfd: one for every round of operations
};

// Runs in the child until it is killed: stores, loads and leases without end.
int use_daemon(const Plan& plan) {
  RankOptions options;
  options.socket = plan.socket;
  options.rows = kClientBatch * kAtOnce;
  Rank rank(options);
  if (rank.open() != HICACHE_OK) {
    return 1;
  }
  std::mt19937 random(plan.seed);
  std::vector<std::uint64_t> leases;
  const std::array<std::uint8_t, 5> verbs{HICACHE_VERB_STORE, HICACHE_VERB_STORE,
                                          HICACHE_VERB_LOAD, HICACHE_VERB_RELOAD,
                                          HICACHE_VERB_PIN};
  while (true) {
    std::vector<std::uint64_t> operations;
    for (std::uint32_t i = 0; i < kAtOnce; ++i) {
      const std::uint8_t verb = verbs[random() % verbs.size()];
      const auto ack = static_cast<std::uint8_t>(HICACHE_ACK_RESIDENT + random() % 3);
      const std::uint32_t flags =
          verb == HICACHE_VERB_STORE && random() % 2 == 0 ? HICACHE_STORE_KEEP_LEASE : 0;
      std::uint64_t op_id = 0;
      if (rank.submit(verb, {random() % kClientPages, kClientBatch, i * kClientBatch}, op_id, ack,
                      flags) == HICACHE_OK) {
        operations.push_back(op_id);
      }
    }
    ::eventfd_write(plan.progress, 1);
    for (const std::uint64_t op_id : operations) {
      if (const hicache_completion done = rank.finish(op_id); done.lease != 0) {
        leases.push_back(done.lease);
      }
    }
    while (leases.size() > kLeasesHeld) {
      rank.release(leases.front());
      leases.erase(leases.begin());
    }
    ::eventfd_write(plan.progress, 1);
  }
}

// The most that was held while the client lived, so that the test is known to have seen leases.
struct Seen {
  std::uint64_t frames_leased = 0;
  std::uint64_t operations_open = 0;
  std::uint64_t longest_ms = 0;
};

void kill_one_client(const DaemonProcess& daemon, Watch& watch, const Holdings& baseline,
                     std::mt19937& random, Seen& seen) {
  const UniqueFd progress(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const Plan plan{daemon.client_socket(), static_cast<std::uint32_t>(random()), progress.get()};
  Child client([&plan] { return use_daemon(plan); });
  const std::uint64_t wanted = 1 + random() % 12;
  for (std::uint64_t rounds = 0; rounds < wanted;) {
    REQUIRE(readable_within(progress.get(), kPatienceMs));
    eventfd_t more = 0;
    REQUIRE(::eventfd_read(progress.get(), &more) == 0);
    rounds += more;
  }
  // The client goes on while the daemon answers; after some answers the kill falls anywhere.
  for (std::uint64_t looks = 1 + random() % 6; looks > 0; --looks) {
    const Holdings before = watch.look();
    seen.frames_leased = std::max(seen.frames_leased, before.frames_leased);
    seen.operations_open = std::max(seen.operations_open, before.operations_open);
  }

  client.kill_now();

  const std::uint64_t killed_ms = monotonic_ms();
  Holdings last;
  const bool back = eventually([&] { return (last = watch.look()) == baseline; });
  INFO("baseline: " << text_of(baseline) << "\nnow:      " << text_of(last) << "\n"
                    << daemon.log());
  REQUIRE(back);
  seen.longest_ms = std::max(seen.longest_ms, monotonic_ms() - killed_ms);
}

TEST_CASE("A client killed while it stores, loads or holds leases leaves nothing behind") {
  DaemonOptions options;
  options.l3_bytes = 32U << 20;  // smaller than what is stored, so that slots are taken back too
  DaemonProcess daemon(options);
  daemon.start();
  Watch watch(daemon);
  std::mt19937 random(20240607);
  Seen seen;
  {
    Rank warm({daemon.client_socket()});  // the first session makes what stays: arenas, slabs
    REQUIRE(warm.open() == HICACHE_OK);
    REQUIRE(warm.store({1, 8, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    REQUIRE(warm.load({1, 8, 0}).code == HICACHE_OK);
  }
  REQUIRE(eventually([&watch] { return watch.look().sessions == 0; }));
  const Holdings baseline = watch.settled();
  REQUIRE(baseline.frames_leased == 0);
  const std::size_t mappings_before = daemon.mappings();
  const std::uint32_t kills = kill_count(20);

  for (std::uint32_t i = 0; i < kills; ++i) {
    INFO("kill " << i);
    kill_one_client(daemon, watch, baseline, random, seen);
  }

  INFO("most frames leased " << seen.frames_leased << ", most operations open "
                             << seen.operations_open << ", longest wait " << seen.longest_ms
                             << " ms");
  if (kills > 20) {
    CHECK(seen.longest_ms < kPromisedMs);
    WARN(kills << " clients killed; longest wait for the baseline " << seen.longest_ms << " ms");
  }
  CHECK(seen.frames_leased > 0);
  CHECK(seen.operations_open > 0);
  // Private memory may come and go with the allocator, but not with every client.
  CHECK(daemon.mappings() < mappings_before + kills / 2);

  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  CHECK(rank.store({9000, 16, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  CHECK(rank.load({9000, 16, 0}).code == HICACHE_OK);
  CHECK(rank.wrong_bytes({9000, 16, 0}) == 0);
  daemon.ask("clear");
  const nlohmann::json stats = daemon.ask("stats");
  CHECK(stats.at("frames_free") == stats.at("frames_total"));
  CHECK(stats.at("slots_free") == stats.at("slots_total"));
  CHECK(stats.at("pages") == 0);
}

}  // namespace
}  // namespace hc::test
