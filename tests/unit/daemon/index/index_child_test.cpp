// SPDX-License-Identifier: Apache-2.0
// index_child_test: what becomes of the process that checks an index, and what is made of it.
// daemon/index/index_child.cpp
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "daemon/index/index_child.h"
#include "index_fixture.h"

namespace hc::test {

namespace {

Result<std::string> run_shell(const std::string& script, std::uint64_t limit_ms = 60'000) {
  return run_index_child({{"/bin/sh", "-c", script}, limit_ms, {}});
}

bool has_no_child() { return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

}  // namespace

TEST_CASE("a child that says the index is sound is believed, with its line") {
  const auto found = run_shell("echo 12 rows; exit 0");

  REQUIRE(found);
  CHECK(*found == "12 rows");
  CHECK(has_no_child());
}

TEST_CASE("a child that finds damage, dies, or says nothing means damage, with the reason") {
  const auto [script, reason] = GENERATE(
      std::pair<std::string, std::string>{"echo page 7: holds page 9; exit 5",
                                          "page 7: holds page 9"},
      std::pair<std::string, std::string>{"echo 12 rows; kill -SEGV $$", "signal 11"},
      std::pair<std::string, std::string>{"kill -BUS $$", "signal 7"},
      std::pair<std::string, std::string>{"kill -ABRT $$", "signal 6"},
      std::pair<std::string, std::string>{"exit 1", "code 1"});

  const auto found = run_shell(script);

  REQUIRE_FALSE(found);
  CHECK(found.error().code == Code::corrupt);
  CHECK(found.error().text.find(reason) != std::string::npos);
  CHECK(has_no_child());
}

TEST_CASE("a child that hangs is ended when its time is over, and is told of meanwhile") {
  int told = 0;
  const auto found = run_index_child({{"/bin/sh", "-c", "exec sleep 1000"}, 500, [&] { ++told; }});

  REQUIRE_FALSE(found);
  CHECK(found.error().code == Code::corrupt);
  CHECK(found.error().text.find("500 ms") != std::string::npos);
  CHECK(told > 0);
  CHECK(has_no_child());
}

TEST_CASE("a child that can't be started says nothing about the index") {
  const auto found = run_index_child({{"/no/such/program"}, 1000, {}});

  REQUIRE_FALSE(found);
  CHECK(found.error().code == Code::unsupported);
  CHECK(has_no_child());
}

TEST_CASE("a child that talks without end is cut off") {
  const auto found =
      run_shell("i=0; while [ $i -lt 2000 ]; do echo -n xxxxxxxxxx; i=$((i+1)); done; exit 5");

  REQUIRE_FALSE(found);
  CHECK(found.error().text.size() <= 1024);
}

TEST_CASE("without a program that can be started the daemon checks the index itself") {
  const TempDir dir;
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    REQUIRE(commit(*index, {{}, {row_of(1, 1, 1)}, {}}));
  }
  LmdbIndexOptions options{dir.str(), 1000, 2, 10'000};
  options.checker = "/no/such/program";
  const auto index = LmdbIndex::create(options);
  REQUIRE(index);

  REQUIRE((*index)->open(identity_of(1)));
  CHECK(visit_all(**index).rows.size() == 1);
}

TEST_CASE("what the checker says decides over an index, and its time grows with the file") {
  const TempDir dir;
  make_index(dir.str())->open(identity_of(1)).has_value();
  LmdbIndexOptions options{dir.str(), 1000, 2, 10'000};
  options.checker = "/bin/false";
  const auto index = LmdbIndex::create(options);
  REQUIRE(index);

  const auto opened = (*index)->open(identity_of(1));

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == Code::corrupt);
  REQUIRE((*index)->reset(identity_of(1)));
  CHECK(index_check_limit_ms(1ULL << 40) > index_check_limit_ms(1 << 20));
}

TEST_CASE("the check itself finds a sound index sound and a cut one damaged") {
  const TempDir dir;
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    REQUIRE(commit(*index, {{space_of(1)}, {row_of(1, 1, 1)}, {}}));
  }
  CHECK(run_index_check(dir.file("index.lmdb")) == kIndexIsSound);
  std::filesystem::resize_file(dir.file("index.lmdb"), 8192);
  CHECK(run_index_check(dir.file("index.lmdb")) == kIndexIsDamaged);
  std::ofstream(dir.file("index.lmdb")) << "foreign";
  CHECK(run_index_check(dir.file("index.lmdb")) == kIndexIsDamaged);
}

}  // namespace hc::test
