// SPDX-License-Identifier: Apache-2.0
// disk_fault_test: a disk that refuses, is full, or does not answer, under a daemon that serves:
// hicached_hooks, whose disk fails when the test says so.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "support/catch.h"
#include "tests/hooks/faulty_disk.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kFaultBatch = 16;
constexpr std::uint32_t kOldPages = 128;  // more than L2 holds: the first of them are on disk only

// The word in memory that the daemon's disk looks at.
class Faults {
 public:
  explicit Faults(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(file);
    REQUIRE(::ftruncate(file.get(), sizeof(DiskFaults)) == 0);
    void* memory = ::mmap(nullptr, sizeof(DiskFaults), PROT_READ | PROT_WRITE, MAP_SHARED,
                          file.get(), 0);
    REQUIRE(memory != MAP_FAILED);
    map_ = static_cast<DiskFaults*>(memory);
  }
  ~Faults() { ::munmap(map_, sizeof(DiskFaults)); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  VolumeFaults& volume() { return map_->volumes[0]; }
  void end() {
    volume().read_errno = 0;
    volume().write_errno = 0;
    volume().holds = 0;
  }

 private:
  DiskFaults* map_ = nullptr;
};

struct Faulty {
  Faulty() : faults(daemon.folder() + "/faults") {
    DaemonOptions& options = daemon.options();
    options.program = "hicached_hooks";
    options.environment = {"HICACHE_DISK_FAULTS=" + daemon.folder() + "/faults"};
    options.l2_bytes = 2U << 20;  // 73 pages
  }
  void begin() {
    daemon.start();
    rank = std::make_unique<Rank>(RankOptions{daemon.client_socket()});
    REQUIRE(rank->open() == HICACHE_OK);
    for (std::uint32_t page = 0; page < kOldPages; page += kFaultBatch) {
      REQUIRE(rank->store({page, kFaultBatch, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    }
  }
  std::uint64_t stat(const std::string& name) {
    return daemon.ask("stats").at(name).get<std::uint64_t>();
  }
  bool durable_again(std::uint64_t first) {
    return eventually([&] {
      return rank->store({first, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK;
    });
  }
  // Every old page but what the device failed on is there, with its own bytes.
  void expect_old_pages(std::uint32_t lost_max) {
    std::uint32_t lost = 0;
    for (std::uint32_t page = 0; page < kOldPages; ++page) {
      const bool there = rank->load({page, 1, 0}).code == HICACHE_OK;
      lost += there ? 0U : 1U;
      if (there) {
        REQUIRE(rank->wrong_bytes({page, 1, 0}) == 0);
      }
    }
    CHECK(lost <= lost_max);
  }

  DaemonProcess daemon;
  Faults faults;
  std::unique_ptr<Rank> rank;
};

TEST_CASE("A disk that turns read-only: loads go on, stores live in memory, and it recovers") {
  Faulty at;
  at.begin();
  at.faults.volume().write_errno = EROFS;

  CHECK(at.rank->store({1000, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_IO_ERROR);
  CHECK(at.rank->store({1004, 4, 0}, HICACHE_ACK_RESIDENT).code == HICACHE_OK);
  CHECK(at.rank->load({0, kFaultBatch, 0}).code == HICACHE_OK);
  CHECK(at.rank->wrong_bytes({0, kFaultBatch, 0}) == 0);
  CHECK(at.stat("volume_failures") == 1);
  CHECK(at.stat("spill_failures") > 0);
  CHECK(occurrences(at.daemon.log(), "volume.failed") == 1);
  CHECK(missing(at.daemon.log(), {"what=writes", "Read-only file system"}) == "");

  at.faults.end();
  CHECK(at.durable_again(2000));
  CHECK(occurrences(at.daemon.log(), "volume.recovered") == 1);
  CHECK(occurrences(at.daemon.log(), "commit.failed") <= 1);
  at.expect_old_pages(1);
}

TEST_CASE("A disk that refuses everything: loads are misses, no byte is wrong, and it recovers") {
  Faulty at;
  at.begin();
  at.faults.volume().read_errno = EIO;
  at.faults.volume().write_errno = EIO;

  for (std::uint32_t page = 0; page < 2 * kFaultBatch; ++page) {
    CHECK(at.rank->load({page, 1, 0}).code == HICACHE_NOT_FOUND);
  }
  CHECK(at.rank->store({1000, 4, 0}, HICACHE_ACK_RESIDENT).code == HICACHE_OK);
  CHECK(at.stat("io_errors") >= 8);
  CHECK(occurrences(at.daemon.log(), "volume.failed") >= 1);
  CHECK(occurrences(at.daemon.log(), "volume.failed") <= 2);  // reads, writes

  at.faults.end();
  CHECK(at.durable_again(2000));
  CHECK(eventually([&] { return at.rank->load({40, 1, 0}).code == HICACHE_OK; }));
  CHECK(occurrences(at.daemon.log(), "volume.recovered") == 1);
  at.expect_old_pages(4);  // the first refusal of a row is blamed on its place
  CHECK(at.daemon.stop() == 0);
}

TEST_CASE("A volume that disappears under the daemon is set aside, and used when it is back") {
  Faulty at;
  at.begin();
  at.faults.volume().read_errno = ENODEV;
  at.faults.volume().write_errno = ENODEV;

  for (std::uint32_t page = 0; page < 8; ++page) {
    CHECK(at.rank->load({page, 1, 0}).code == HICACHE_NOT_FOUND);
  }
  CHECK(at.rank->store({1000, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_IO_ERROR);
  CHECK(at.rank->store({1004, 4, 0}, HICACHE_ACK_RESIDENT).code == HICACHE_OK);
  CHECK(at.rank->load({1004, 4, 0}).code == HICACHE_OK);
  CHECK(at.rank->wrong_bytes({1004, 4, 0}) == 0);
  CHECK(at.stat("volume_failures") == 1);
  CHECK(occurrences(at.daemon.log(), "volume.failed") == 1);
  CHECK(missing(at.daemon.log(), {"what=all", "No such device"}) == "");

  at.faults.end();
  CHECK(at.durable_again(2000));
  CHECK(eventually([&] { return at.rank->load({40, 1, 0}).code == HICACHE_OK; }));
  CHECK(occurrences(at.daemon.log(), "volume.recovered") == 1);
  at.expect_old_pages(1);  // the first refusal is blamed on its place
  CHECK(at.daemon.stop() == 0);
}

TEST_CASE("A disk that is full: stores that want more than memory are told, and it recovers") {
  Faulty at;
  at.begin();
  at.faults.volume().write_errno = ENOSPC;

  CHECK(at.rank->store({1000, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_NO_SPACE);
  CHECK(at.rank->store({1004, 4, 0}, HICACHE_ACK_RESIDENT).code == HICACHE_OK);
  CHECK(at.rank->load({0, kFaultBatch, 0}).code == HICACHE_OK);
  CHECK(at.stat("spill_failures") > 0);
  CHECK(at.stat("slots_quarantined") == 0);
  CHECK(occurrences(at.daemon.log(), "volume.full") == 1);
  CHECK(occurrences(at.daemon.log(), "commit.failed") <= 1);

  at.faults.end();
  CHECK(at.durable_again(2000));
  CHECK(occurrences(at.daemon.log(), "volume.has_space") == 1);
  at.expect_old_pages(0);
  CHECK(at.daemon.stop() == 0);
}

TEST_CASE("A disk that does not answer: who waits is told in time, and it recovers") {
  Faulty at;
  at.daemon.options().io_timeout_ms = 1500;  // more than a disk takes that others use
  at.begin();
  at.faults.volume().holds = 1;

  CHECK(at.rank->load({0, 4, 0}).code == HICACHE_NOT_FOUND);
  CHECK(at.rank->store({1000, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_IO_ERROR);
  CHECK(at.rank->load({1000, 4, 0}).code == HICACHE_OK);  // from memory
  CHECK(at.stat("io_timeouts") > 0);
  CHECK(at.faults.volume().held > 0);
  CHECK(occurrences(at.daemon.log(), "volume.late") == 1);

  at.faults.end();
  CHECK(at.durable_again(2000));
  CHECK(eventually([&] { return at.faults.volume().held == 0; }));
  CHECK(eventually([&] { return at.rank->load({0, 4, 0}).code == HICACHE_OK; }));
  CHECK(at.rank->wrong_bytes({0, 4, 0}) == 0);
  at.expect_old_pages(0);
}

TEST_CASE("A disk that is read-only at the start is one line, and the next start serves") {
  Faulty at;
  at.faults.volume().write_errno = EROFS;

  CHECK(at.daemon.start_refused() != 0);
  const auto lines = complaints(at.daemon.log());
  REQUIRE(lines.size() == 1);
  CHECK(missing(lines[0], {"Read-only file system"}) == "");

  at.faults.end();
  at.begin();
  at.expect_old_pages(0);
}

TEST_CASE("A volume that is gone before a load starts empty; back again, its pages are back") {
  Faulty at;
  at.begin();
  REQUIRE(at.daemon.stop() == 0);
  const std::string away = at.daemon.folder() + "/away";
  std::filesystem::rename(at.daemon.volume(), away);

  at.daemon.start();
  {
    Rank rank({at.daemon.client_socket()});
    REQUIRE(rank.open() == HICACHE_OK);
    CHECK(rank.load({0, 4, 0}).code == HICACHE_NOT_FOUND);
    CHECK(rank.store({0, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  }
  CHECK(occurrences(at.daemon.log(), "store.new") == 1);
  REQUIRE(at.daemon.stop() == 0);

  std::filesystem::remove_all(at.daemon.volume());
  std::filesystem::rename(away, at.daemon.volume());
  at.daemon.start();
  at.rank = std::make_unique<Rank>(RankOptions{at.daemon.client_socket()});
  REQUIRE(at.rank->open() == HICACHE_OK);
  CHECK(occurrences(at.daemon.log(), "store.new") == 0);
  at.expect_old_pages(0);
}

TEST_CASE("A volume whose folder is moved away under the daemon goes on through its descriptors") {
  Faulty at;
  at.begin();
  const std::string away = at.daemon.folder() + "/away";
  std::filesystem::rename(at.daemon.volume(), away);

  CHECK(at.rank->store({1000, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  at.expect_old_pages(0);

  std::filesystem::rename(away, at.daemon.volume());
  REQUIRE(at.daemon.stop() == 0);
  at.daemon.start();
  at.rank = std::make_unique<Rank>(RankOptions{at.daemon.client_socket()});
  REQUIRE(at.rank->open() == HICACHE_OK);
  CHECK(at.rank->load({1000, 4, 0}).code == HICACHE_OK);
  at.expect_old_pages(0);
}

}  // namespace
}  // namespace hc::test
