// SPDX-License-Identifier: Apache-2.0
// index_full_test: the file system that holds the index runs full under a daemon that serves.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kIndexBatch = 16;
constexpr std::uint32_t kOldPages = 128;  // more than L2 holds: the first of them are on disk only
constexpr std::uint32_t kNewBatches = 100;

// A file that takes every byte that is left, until it is removed.
class Filler {
 public:
  explicit Filler(std::string path) : path_(std::move(path)) {
    const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    REQUIRE(file);
    const std::vector<char> block(4096, 'x');
    while (::write(file.get(), block.data(), block.size()) > 0) {
    }
    REQUIRE(errno == ENOSPC);
  }
  void remove() { REQUIRE(::unlink(path_.c_str()) == 0); }

 private:
  std::string path_;
};

TEST_CASE("An index without space: stores are told, loads go on, and it recovers with the space") {
  if (!can_mount()) {
    WARN("not tested, no file system can be mounted here");
    return;
  }
  DaemonProcess daemon;
  daemon.options().l2_bytes = 2U << 20;  // 73 pages
  daemon.options().small_index_bytes = 4U << 20;
  daemon.start();
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  for (std::uint32_t page = 0; page < kOldPages; page += kIndexBatch) {
    REQUIRE(rank.store({page, kIndexBatch, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  }

  Filler filler("/proc/" + std::to_string(daemon.pid()) + "/root" + daemon.index_dir() + "/fill");
  hicache_code told = HICACHE_OK;
  std::uint32_t batch = 0;
  for (; batch < kNewBatches && told == HICACHE_OK; ++batch) {
    told = rank.store({1000 + batch * kIndexBatch, kIndexBatch, 0}, HICACHE_ACK_DURABLE).code;
  }
  CHECK(told == HICACHE_NO_SPACE);
  CHECK(rank.store({9000, 4, 0}, HICACHE_ACK_RESIDENT).code == HICACHE_OK);
  CHECK(rank.load({0, kIndexBatch, 0}).code == HICACHE_OK);
  CHECK(rank.wrong_bytes({0, kIndexBatch, 0}) == 0);
  CHECK(daemon.ask("stats").at("commit_failures").get<std::uint64_t>() > 0);
  CHECK(occurrences(daemon.log(), "commit.failed") == 1);

  filler.remove();
  CHECK(eventually([&] {
    return rank.store({9500, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK;
  }));
  CHECK(occurrences(daemon.log(), "commit.done") == 1);
  for (std::uint32_t page = 0; page < kOldPages; page += kIndexBatch) {
    CHECK(rank.load({page, kIndexBatch, 0}).code == HICACHE_OK);
    CHECK(rank.wrong_bytes({page, kIndexBatch, 0}) == 0);
  }
  CHECK(rank.close() == HICACHE_OK);
  CHECK(daemon.stop() == 0);
}

}  // namespace
}  // namespace hc::test
