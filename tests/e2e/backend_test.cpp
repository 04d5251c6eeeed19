// SPDX-License-Identifier: Apache-2.0
// backend_test: the same work over io_uring and over threads, and the step from one to the other.
#include <algorithm>
#include <cerrno>
#include <string>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "support/catch.h"
#include "support/io_uring.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kExitUnsupported = 5;

// More pages than L2 holds, so that loads come from disk; then a restart.
void store_evict_reload_restart(DaemonProcess& daemon) {
  constexpr std::uint32_t kBatch = 32;
  constexpr std::uint32_t kPages = 256;
  {
    Rank rank({daemon.client_socket()});
    REQUIRE(rank.open() == HICACHE_OK);
    for (std::uint32_t page = 0; page < kPages; page += kBatch) {
      REQUIRE(rank.store({page, kBatch, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    }
    std::uint32_t from_disk = 0;
    for (std::uint32_t page = 0; page < kPages; page += kBatch) {
      const hicache_completion loaded = rank.load({page, kBatch, 0});
      REQUIRE(loaded.code == HICACHE_OK);
      REQUIRE(rank.wrong_bytes({page, kBatch, 0}) == 0);
      from_disk += loaded.pages_from_l3;
    }
    CHECK(from_disk >= kPages / 2);
  }
  REQUIRE(daemon.stop() == 0);
  daemon.start();
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  for (std::uint32_t page = 0; page < kPages; page += kBatch) {
    const hicache_completion loaded = rank.load({page, kBatch, 0});
    REQUIRE(loaded.code == HICACHE_OK);
    REQUIRE(loaded.pages_from_l3 == kBatch);
    REQUIRE(rank.wrong_bytes({page, kBatch, 0}) == 0);
  }
}

DaemonOptions small_memory(const std::string& backend) {
  DaemonOptions options;
  options.l2_bytes = 2U << 20;  // 73 pages
  options.disk_backend = backend;
  return options;
}

TEST_CASE("The threads back end stores, evicts, reloads and restarts") {
  DaemonProcess daemon(small_memory("threads"));
  daemon.start();
  CHECK(missing(daemon.ask("status").at("disk_backend").get<std::string>(), {"threads"}) == "");

  store_evict_reload_restart(daemon);
}

TEST_CASE("Automatic is io_uring where the kernel gives it, else threads with one line") {
  DaemonProcess daemon(small_memory("automatic"));

  daemon.start();

  const auto backend = daemon.ask("status").at("disk_backend").get<std::string>();
  CHECK(missing(backend, {has_io_uring() ? "io_uring" : "threads"}) == "");
  CHECK(occurrences(daemon.log(), "disk.backend_step_down") == (has_io_uring() ? 0 : 2));
}

TEST_CASE("The uring back end stores, evicts, reloads and restarts, or says what is missing") {
  DaemonProcess daemon(small_memory("uring"));
  if (!has_io_uring()) {
    WARN("only the refusal is tested, the kernel denies io_uring: errno " << io_uring_refusal(8));
    CHECK(daemon.start_refused() == kExitUnsupported);
    const auto lines = complaints(daemon.log());
    REQUIRE(lines.size() == 1);
    CHECK(missing(lines[0], {"io_uring"}) == "");
    return;
  }
  daemon.start();
  CHECK(missing(daemon.ask("status").at("disk_backend").get<std::string>(), {"io_uring"}) == "");

  store_evict_reload_restart(daemon);
}

TEST_CASE("Where io_uring is denied, automatic steps down to threads, with a line for each step") {
  const int error = GENERATE(EPERM, ENOSYS);
  CAPTURE(error);
  DaemonOptions options = small_memory("automatic");
  options.io_uring_errno = error;
  DaemonProcess daemon(options);
  daemon.start();

  const std::string log = daemon.log();
  CHECK(occurrences(log, "disk.backend_step_down") == 2);
  CHECK(missing(log, {"io_uring_setup", error == EPERM ? "Operation not permitted"
                                                        : "Function not implemented"}) == "");
  CHECK(missing(daemon.ask("status").at("disk_backend").get<std::string>(), {"threads"}) == "");
  store_evict_reload_restart(daemon);
}

TEST_CASE("Where io_uring is denied, uring refuses to start in one line") {
  DaemonOptions options = small_memory("uring");
  options.io_uring_errno = EPERM;
  DaemonProcess daemon(options);

  CHECK(daemon.start_refused() == kExitUnsupported);

  const auto lines = complaints(daemon.log());
  REQUIRE(lines.size() == 1);
  CHECK(missing(lines[0], {"io_uring"}) == "");
}

TEST_CASE("The registered back end stores, evicts, reloads and restarts") {
  if (!has_io_uring()) {
    WARN("not tested, the kernel denies io_uring: errno " << io_uring_refusal(8));
    return;
  }
  DaemonProcess daemon(small_memory("uring_fixed"));
  daemon.start();
  CHECK(missing(daemon.ask("status").at("disk_backend").get<std::string>(),
                {"io_uring registered"}) == "");

  store_evict_reload_restart(daemon);
}

TEST_CASE("Where little memory may be locked, automatic goes on unregistered with one line") {
  if (!has_io_uring()) {
    WARN("not tested, the kernel denies io_uring: errno " << io_uring_refusal(8));
    return;
  }
  DaemonOptions options = small_memory("automatic");
  options.locked_bytes_max = 1U << 20;
  DaemonProcess daemon(options);
  daemon.start();

  CHECK(occurrences(daemon.log(), "disk.backend_step_down") == 1);
  CHECK(missing(daemon.log(), {"from=uring_fixed", "to=uring", "RLIMIT_MEMLOCK"}) == "");
  CHECK(missing(daemon.ask("status").at("disk_backend").get<std::string>(), {"io_uring ("}) == "");
  store_evict_reload_restart(daemon);
}

TEST_CASE("Without huge pages the cache is there all the same, and one line says so") {
  DaemonOptions options = small_memory("automatic");
  options.huge_pages = true;
  if (lines_of(read_text("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")) !=
      std::vector<std::string>{"0"}) {
    WARN("not tested, this machine has huge pages");
    return;
  }
  DaemonProcess daemon(options);
  daemon.start();

  store_evict_reload_restart(daemon);
  CHECK(occurrences(daemon.log(), "l2.no_huge_pages") == 1);
}

TEST_CASE("Pages written by one back end are read by the other") {
  DaemonProcess daemon(small_memory("automatic"));  // io_uring, where the kernel gives it
  daemon.start();
  const Keys keys{1, 40, 0};
  {
    Rank rank({daemon.client_socket()});
    REQUIRE(rank.open() == HICACHE_OK);
    REQUIRE(rank.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  }
  daemon.kill_now();
  daemon.options().disk_backend = "threads";
  daemon.start();

  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  CHECK(rank.load(keys).code == HICACHE_OK);
  CHECK(rank.wrong_bytes(keys) == 0);
}

}  // namespace
}  // namespace hc::test
