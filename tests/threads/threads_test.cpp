// SPDX-License-Identifier: Apache-2.0
// threads_test: a daemon and its ranks in one process, so that the thread sanitizer sees every
// access to what they share: rings, doorbells, tables, arenas, client memory.
//
// Owner threads: the daemon's loop in one, each rank in one of its own, the daemon's helpers.
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "daemon/daemon.h"
#include "daemon/log/log.h"
#include "e2e/process.h"
#include "e2e/rank.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace hc::test {
namespace {

constexpr std::uint16_t kRanks = 3;
constexpr std::uint32_t kBatch = 4;
constexpr std::uint32_t kTurns = 60;

Config config_in(const TempDir& folder) {
  Config config;
  config.runtime_dir = folder.file("run");
  config.volume_dir = folder.file("volume");
  config.disk_backend = DiskBackend::threads;
  config.l2_bytes = 2U << 20;
  config.l3_bytes = 4U << 20;
  config.reserve_slots = 8;
  config.commit_interval_ms = 5;
  config.cold_start = ColdStart::load;
  return config;
}

RankOptions options_of(const std::string& socket, std::uint16_t rank) {
  RankOptions options;
  options.socket = socket;
  options.rank = rank;
  options.world = kRanks;
  options.payload_bytes = 12'000;
  return options;
}

bool is_fine(hicache_code code) {
  return code == HICACHE_OK || code == HICACHE_NOT_FOUND || code == HICACHE_BUSY ||
         code == HICACHE_NO_SPACE || code == HICACHE_RETRY;
}

// Every verb, on pages that other ranks and earlier turns have stored; the number of surprises.
std::uint64_t work(const std::string& socket, std::uint16_t number) {
  Rank rank(options_of(socket, number));
  if (rank.open() != HICACHE_OK) {
    return 1;
  }
  std::uint64_t odd = 0;
  for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
    const Keys keys{turn * kBatch % 160, kBatch, 0};
    const std::uint8_t ack = turn % 3 == 0 ? HICACHE_ACK_DURABLE : HICACHE_ACK_RESIDENT;
    odd += is_fine(rank.store(keys, ack).code) ? 0U : 1U;
    static_cast<void>(rank.present({0, 32, 0}));
    const Keys older{turn * 7 % 120, kBatch, 8};
    const hicache_completion loaded = rank.load(older);
    odd += is_fine(loaded.code) ? 0U : 1U;
    odd += loaded.code == HICACHE_OK ? rank.wrong_bytes(older) : 0U;
    const hicache_completion leased = rank.reload({older.first, 2, 0});
    if (leased.code == HICACHE_OK) {
      odd += rank.wrong_bytes_in_lease(leased.lease, {older.first, 2, 0});
      odd += is_fine(rank.release(leased.lease).code) ? 0U : 1U;
    }
    if (turn % 10 == 9) {
      odd += is_fine(rank.free_pages({keys.first, 2, 0}).code) ? 0U : 1U;
      odd += is_fine(rank.flush().code) ? 0U : 1U;
    }
  }
  return odd;
}

// Parts of memory files that this process has at two addresses. The ranks' own regions, which
// their test code maps, come before the daemon's view of them and are found by it.
std::size_t files_mapped_twice() {
  std::set<std::string> seen;
  std::size_t twice = 0;
  for (const std::string& line : lines_of(read_text("/proc/self/maps"))) {
    std::istringstream words(line);
    std::string range;
    std::string rights;
    std::string offset;
    std::string device;
    std::string inode;
    words >> range >> rights >> offset >> device >> inode;
    if (line.find("memfd:") != std::string::npos) {
      twice += seen.insert(inode + "@" + offset).second ? 0U : 1U;
    }
  }
  return twice;
}

TEST_CASE("Client and daemon as threads of one process share nothing without an order") {
  const TempDir folder;
  log_start(LogLevel::warn, false);
  Daemon daemon(config_in(folder));
  REQUIRE(daemon.start().has_value());
  std::atomic<bool> ran{false};
  std::thread loop([&] { ran = daemon.run().has_value(); });

  std::array<std::atomic<std::uint64_t>, kRanks> odd{};
  std::vector<std::thread> ranks;
  for (std::uint16_t number = 0; number < kRanks; ++number) {
    ranks.emplace_back(
        [&, number] { odd[number] = work(folder.file("run/hicached.sock"), number); });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  CHECK(files_mapped_twice() == 0);  // else the sanitizer would be blind to that file
  ::kill(::getpid(), SIGTERM);  // blocked in every thread; the daemon reads it
  loop.join();

  CHECK(ran.load());
  for (const auto& count : odd) {
    CHECK(count.load() == 0);
  }
}

}  // namespace
}  // namespace hc::test
