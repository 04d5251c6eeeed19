// SPDX-License-Identifier: Apache-2.0
// bench_parts_test: the small parts of a bench: folder, configuration, memory of ranks, keys.
#include "client/ctl/interrupt.h"
#include "client/ctl/private_daemon.h"
#include "client/ctl/progress.h"
#include "client/ctl/rank_board.h"
#include "client/ctl/rank_client.h"
#include "client/ctl/rank_engine.h"
#include "client/ctl/rank_region.h"
#include "client/ctl/temporary_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/catch.h"

namespace hc {

namespace {

SpaceDescriptor two_kinds() {
  SpaceDescriptor space;
  space.kinds = {{"kv", 10001, Placement::sharded, HitPolicy::all_pages, 0},
                 {"indexer", 333, Placement::replicated, HitPolicy::all_pages, 0}};
  return space;
}

}  // namespace

TEST_CASE("a temporary folder goes with its owner, unless it is kept", "[ctl]") {
  std::string path;
  {
    auto folder = TemporaryFolder::make("");
    REQUIRE(folder);
    path = folder->path();
    std::ofstream(path + "/file") << "x";
    CHECK(std::filesystem::is_directory(path));
  }
  CHECK_FALSE(std::filesystem::exists(path));
  {
    auto folder = TemporaryFolder::make("");
    path = folder->path();
    folder->keep();
  }
  CHECK(std::filesystem::remove_all(path) == 1);
  CHECK_FALSE(TemporaryFolder::make("/nonexistent"));
}

TEST_CASE("a private daemon's configuration holds what the bench decided", "[ctl]") {
  PrivateDaemonOptions options;
  options.folder = "/tmp/x \"y\"";
  options.l2_bytes = 123;
  options.l3_bytes = 456;
  options.reserve_slots = 7;
  options.disk_backend = "threads";
  options.commit_interval_ms = 250;

  const std::string text = private_config(options);

  for (const char* part :
       {"runtime_dir = \"/tmp/x \\\"y\\\"\"", "l2_bytes = 123", "l3_bytes = 456",
        "reserve_slots = 7", "disk_backend = \"threads\"", "commit_interval_ms = 250",
        "mode = \"load\""}) {
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("a daemon that can't be started is one line with its reason", "[ctl]") {
  auto folder = TemporaryFolder::make("");
  REQUIRE(folder);
  auto interrupt = Interrupt::make();
  REQUIRE(interrupt);
  PrivateDaemonOptions options;
  options.folder = folder->path();
  options.binary = folder->path() + "/no-such-program";
  PrivateDaemon daemon(options, *interrupt);

  const auto started = daemon.start();

  REQUIRE_FALSE(started);
  CHECK(started.error().text.find("can't be started: No such file") != std::string::npos);
  CHECK(started.error().text.find('\n') == std::string::npos);
}

TEST_CASE("the daemon named on the command line is the one that is started", "[ctl]") {
  CHECK(find_hicached("/some/where") == "/some/where");
  CHECK_FALSE(find_hicached("").empty());
}

TEST_CASE("SIGTERM becomes readable instead of ending the process", "[ctl]") {
  auto interrupt = Interrupt::make();
  REQUIRE(interrupt);
  CHECK_FALSE(interrupt->raised());

  ::kill(::getpid(), SIGTERM);

  CHECK(interrupt->raised());
}

TEST_CASE("progress draws nothing on a file", "[ctl]") {
  std::FILE* const file = std::tmpfile();
  {
    Progress progress(file);
    CHECK_FALSE(progress.on_terminal());
    progress.step(1, 2, "half");
  }
  CHECK(std::ftell(file) == 0);
  std::fclose(file);
}

TEST_CASE("boards are written by children and read by their parent", "[ctl]") {
  auto boards = RankBoards::make(2, 100);
  REQUIRE(boards);
  const pid_t child = ::fork();
  if (child == 0) {
    boards->totals(1).wrong_bytes = 5;
    boards->acked(1)[99] = 7;
    boards->present(1)[99] = 1;
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);

  CHECK(boards->totals(1).wrong_bytes == 5);
  CHECK(boards->acked(1)[99] == 7);
  CHECK(boards->present(1)[99] == 1);
  CHECK(boards->totals(0).wrong_bytes == 0);
  CHECK(boards->acked(0)[99] == 0);
  CHECK(boards->present(0)[99] == 0);
}

TEST_CASE("rows of a region hold their own bytes, cut into runs or not", "[ctl]") {
  const std::uint32_t runs = GENERATE(1U, 2U, 7U, 64U);
  auto region = RankRegion::make(two_kinds(), {.rows = 3, .runs = runs});
  REQUIRE(region);
  for (std::uint32_t row = 0; row < 3; ++row) {
    region->fill(row, {row, 1, 0});
    region->fill(row, {row, 1, 1});
  }

  for (std::uint32_t row = 0; row < 3; ++row) {
    for (const std::uint16_t kind : {std::uint16_t{0}, std::uint16_t{1}}) {
      CHECK(region->compare(row, {row, 1, kind}).wrong_bytes == 0);
      CHECK(region->compare(row, {row + 1, 1, kind}).wrong_bytes > 300);
    }
  }
}

TEST_CASE("a spoiled payload is wrong almost everywhere, and its neighbours are not", "[ctl]") {
  auto region = RankRegion::make(two_kinds(), {.rows = 2, .runs = 3});
  REQUIRE(region);
  for (std::uint32_t row = 0; row < 2; ++row) {
    region->fill(row, {row, 0, 0});
    region->fill(row, {row, 0, 1});
  }

  region->spoil(0, 0);

  CHECK(region->compare(0, {0, 0, 0}).wrong_bytes > 9900);
  CHECK(region->compare(0, {0, 0, 1}).wrong_bytes == 0);
  CHECK(region->compare(1, {1, 0, 0}).wrong_bytes == 0);
}

TEST_CASE("page keys are distinct and depend on the id alone", "[ctl]") {
  Trace one;
  Trace two;
  one.add({}, std::vector<std::uint64_t>{5, 6, 7});
  two.add({}, std::vector<std::uint64_t>{7, 5});

  const auto first = make_page_keys(one);
  const auto second = make_page_keys(two);

  CHECK(std::set<PageHash>(first.begin(), first.end()).size() == 3);
  CHECK(first[0] == second[1]);
  CHECK(first[2] == second[0]);
}

TEST_CASE("a block's owner is its id modulo the ranks", "[ctl]") {
  CHECK(owner_of_id(7, 2) == 1);
  CHECK(owner_of_id(8, 2) == 0);
  CHECK(owner_of_id(8, 3) == 2);
}

TEST_CASE("answers that an engine survives are misses, the others end a bench", "[ctl]") {
  for (const hicache_code code :
       {HICACHE_NOT_FOUND, HICACHE_BUSY, HICACHE_NO_SPACE, HICACHE_DISCONNECTED,
        HICACHE_TIMED_OUT, HICACHE_RETRY, HICACHE_CANCELLED, HICACHE_IO_ERROR,
        HICACHE_NOT_READY}) {
    CHECK(is_miss(code));
  }
  for (const hicache_code code :
       {HICACHE_OK, HICACHE_BAD_ARGUMENT, HICACHE_REFUSED, HICACHE_SUPERSEDED,
        HICACHE_PROTOCOL, HICACHE_UNSUPPORTED, HICACHE_MEMORY_FAULT, HICACHE_CORRUPT}) {
    CHECK_FALSE(is_miss(code));
  }
}

}  // namespace hc
