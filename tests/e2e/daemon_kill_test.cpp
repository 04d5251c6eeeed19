// SPDX-License-Identifier: Apache-2.0
// daemon_kill_test: a daemon killed at any moment under load loses nothing that it called durable,
// gives back no wrong byte, and its clients go on by themselves.
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "proto/check.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kShardPages = 3200;   // of each shard; L3 takes all of them
constexpr std::uint32_t kShardBatch = 4;
constexpr std::uint16_t kRanks = 2;
constexpr std::uint32_t kSampled = 48;   // pages that are loaded after each restart
constexpr std::uint64_t kCallMsMax = Rank::kDeadlineMs + 10'000;

// What a rank process shows; written by it alone, but for the allowance.
struct Board {
  std::atomic<std::uint32_t> allowed;        // pages below this one may be stored
  std::atomic<std::uint64_t> wrong_bytes;
  std::atomic<std::uint64_t> lost_pages;     // durable, and not found by a later load
  std::atomic<std::uint64_t> unended;        // operations or calls without an end
  std::atomic<std::uint64_t> pages_from_l3;
  std::atomic<std::int32_t> odd_code;        // no restart explains it, or it lasted too long
  std::array<std::atomic<std::uint8_t>, kShardPages> durable;
};

struct BoardDeleter {
  void operator()(Board* board) const { ::munmap(board, sizeof *board); }
};
using BoardPtr = std::unique_ptr<Board, BoardDeleter>;

BoardPtr make_board() {
  void* const place = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  HC_CHECK(place != MAP_FAILED);
  return BoardPtr(new (place) Board());
}

bool restart_explains(hicache_code code) {
  return code == HICACHE_DISCONNECTED || code == HICACHE_CANCELLED || code == HICACHE_RETRY ||
         code == HICACHE_BUSY || code == HICACHE_NOT_READY;
}

RankOptions rank_options(const std::string& socket, std::uint16_t rank, const char* group) {
  RankOptions options;
  options.socket = socket;
  options.group = group;
  options.rank = rank;
  options.world = kRanks;
  options.payload_bytes = 6'000;
  return options;
}

// One rank under load, in a process of its own.
class Load {
 public:
  Load(Board& board, int progress, std::uint16_t rank, const std::string& socket)
      : board_(board), progress_(progress), rank_(rank_options(socket, rank, "engine")),
        random_(100U + rank) {}

  int run() {
    if (rank_.open() != HICACHE_OK) {
      return 1;
    }
    while (true) {
      turn();
    }
  }

 private:
  void turn() {
    const std::uint64_t begin_ms = monotonic_ms();
    const std::uint32_t choice = random_() % 4;
    const Keys keys{pick(), kShardBatch, 0};
    hicache_code code = HICACHE_OK;
    if (choice < 2 && next_ + kShardBatch <= board_.allowed.load()) {
      code = store({next_, kShardBatch, 0});
    } else if (choice == 2) {
      code = lease(keys);
    } else {
      code = load(keys);
    }
    if (code == Rank::kNeverEnded || monotonic_ms() - begin_ms > kCallMsMax) {
      ++board_.unended;
    }
    if (code == HICACHE_OK || code == HICACHE_NOT_FOUND) {
      ::eventfd_write(progress_, 1);
    } else if (!restart_explains(code)) {
      board_.odd_code = code;
    } else if (!rank_.wait_serving()) {  // the library attaches again in the background
      board_.odd_code = code;
    }
  }

  std::uint64_t pick() { return next_ < kShardBatch ? 0 : random_() % (next_ - kShardBatch + 1); }

  bool all_durable(const Keys& keys) const {
    for (std::uint32_t i = 0; i < keys.count; ++i) {
      if (board_.durable[keys.first + i].load() == 0) {
        return false;
      }
    }
    return true;
  }

  hicache_code store(const Keys& keys) {
    const hicache_code code = rank_.store(keys, HICACHE_ACK_DURABLE).code;
    if (code == HICACHE_OK) {
      for (std::uint32_t i = 0; i < keys.count; ++i) {
        board_.durable[keys.first + i] = 1;
      }
      next_ += keys.count;
    }
    return code;
  }

  hicache_code load(const Keys& keys) {
    const bool promised = all_durable(keys);
    const hicache_completion done = rank_.load(keys);
    if (done.code == HICACHE_OK) {
      board_.wrong_bytes += rank_.wrong_bytes(keys);
      board_.pages_from_l3 += done.pages_from_l3;
    }
    if (done.code == HICACHE_NOT_FOUND && promised) {
      ++board_.lost_pages;
    }
    return done.code;
  }

  hicache_code lease(const Keys& keys) {
    const bool promised = all_durable(keys);
    const hicache_completion done = rank_.reload(keys);
    if (done.code == HICACHE_NOT_FOUND && promised) {
      ++board_.lost_pages;
    }
    if (done.code != HICACHE_OK) {
      return done.code;
    }
    board_.wrong_bytes += rank_.wrong_bytes_in_lease(done.lease, keys);
    const hicache_code code = rank_.release(done.lease).code;
    return code == HICACHE_NOT_FOUND ? HICACHE_OK : code;  // the lease ended with its session
  }

  Board& board_;
  int progress_;
  Rank rank_;
  std::mt19937 random_;
  std::uint32_t next_ = 0;
};

struct Shard {
  BoardPtr board = make_board();
  UniqueFd progress{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<Child> process;
};

void await_progress(const Shard& shard, std::uint64_t wanted) {
  eventfd_t done = 0;
  ::eventfd_read(shard.progress.get(), &done);  // what was before
  for (std::uint64_t seen = 0; seen < wanted; seen += done) {
    INFO("the rank makes no progress after the restart");
    REQUIRE(readable_within(shard.progress.get(), kPatienceMs));
    REQUIRE(::eventfd_read(shard.progress.get(), &done) == 0);
  }
}

std::vector<std::uint32_t> durable_pages(const Board& board) {
  std::vector<std::uint32_t> pages;
  for (std::uint32_t page = 0; page < kShardPages; ++page) {
    if (board.durable[page].load() != 0) {
      pages.push_back(page);
    }
  }
  return pages;
}

void expect_healthy(const Board& board) {
  CHECK(board.wrong_bytes.load() == 0);
  CHECK(board.lost_pages.load() == 0);
  CHECK(board.unended.load() == 0);
  CHECK(board.odd_code.load() == 0);
}

// `pages` were durable before the kill: all are there, and those that are sampled hold their bytes.
void expect_kept(const DaemonProcess& daemon, std::uint16_t shard,
                 const std::vector<std::uint32_t>& pages, std::mt19937& random, bool all) {
  Rank reader(rank_options(daemon.client_socket(), shard, "reader"));
  REQUIRE(reader.open() == HICACHE_OK);
  std::uint32_t absent = 0;
  for (const std::uint32_t page : pages) {
    absent += reader.present({page, 1, 0}) == 1 ? 0U : 1U;
  }
  CHECK(absent == 0);
  std::vector<std::uint32_t> sample = pages;
  if (!all && sample.size() > kSampled) {
    // The latest are those that a lost commit would have taken.
    std::reverse(sample.begin(), sample.end());
    std::shuffle(sample.begin() + kSampled / 2, sample.end(), random);
    sample.resize(kSampled);
  }
  for (const std::uint32_t page : sample) {
    hicache_completion done = reader.load({page, 1, 0});
    for (int tries = 0; done.code == HICACHE_BUSY && tries < 1000; ++tries) {
      done = reader.load({page, 1, 0});
    }
    CHECK(done.code == HICACHE_OK);
    CHECK(reader.wrong_bytes({page, 1, 0}) == 0);
  }
}

TEST_CASE("A daemon killed at any moment keeps what was durable, and its clients go on") {
  DaemonOptions options;
  options.l2_bytes = 2U << 20;
  options.l3_bytes = 128U << 20;
  options.commit_interval_ms = 5;
  DaemonProcess daemon(options);
  daemon.start();
  std::array<Shard, kRanks> shards;
  for (std::uint16_t i = 0; i < kRanks; ++i) {
    Shard& shard = shards[i];
    shard.process = std::make_unique<Child>([&shard, &daemon, i] {
      return Load(*shard.board, shard.progress.get(), i, daemon.client_socket()).run();
    });
  }
  std::mt19937 random(20240608);
  const std::uint32_t kills = kill_count(20);

  for (std::uint32_t kill = 0; kill < kills; ++kill) {
    INFO("kill " << kill);
    for (const Shard& shard : shards) {
      shard.board->allowed = kShardPages * (kill + 1) / kills;
      await_progress(shard, 1 + random() % 6);
    }
    // The ranks go on while the daemon answers; after some answers the kill falls anywhere.
    for (std::uint64_t answers = random() % 16; answers > 0; --answers) {
      daemon.ask("version");
    }
    std::array<std::vector<std::uint32_t>, kRanks> durable;
    for (std::uint16_t i = 0; i < kRanks; ++i) {
      durable[i] = durable_pages(*shards[i].board);
    }

    daemon.kill_now();
    daemon.start("load");

    for (std::uint16_t i = 0; i < kRanks; ++i) {
      INFO("shard " << i);
      expect_kept(daemon, i, durable[i], random, kill + 1 == kills);
      expect_healthy(*shards[i].board);
    }
  }

  for (Shard& shard : shards) {
    await_progress(shard, 8);
    shard.process.reset();
    expect_healthy(*shard.board);
    CHECK(durable_pages(*shard.board).size() >= kShardBatch);
    CHECK(shard.board->pages_from_l3.load() > 0);
  }
  const nlohmann::json stats = daemon.ask("stats");
  CHECK(stats.at("pages_evicted_l3") == 0);  // else the promise above would not hold
  CHECK(stats.at("read_failures") == 0);
  CHECK(daemon.stop() == 0);
}

}  // namespace
}  // namespace hc::test
