// SPDX-License-Identifier: Apache-2.0
// lmdb_damage_test: damaged, cut and half-made index files. daemon/index/lmdb_file.cpp,
// daemon/index/lmdb_env.cpp
#include <fcntl.h>
#include <lmdb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "daemon/index/lmdb_env.h"
#include "daemon/index/lmdb_file.h"
#include "index_fixture.h"
#include "support/child.h"

namespace hc::test {

namespace {

// Changes one stored value through LMDB itself, as a rotten page would.
void change_value(const std::string& path, const char* database, std::string key,
                  const std::function<void(std::string&)>& change) {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  MDB_val raw_key{key.size(), key.data()};
  MDB_val value{};
  REQUIRE(mdb_env_create(&env) == 0);
  REQUIRE(mdb_env_set_maxdbs(env, 3) == 0);
  REQUIRE(mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_NOTLS, 0600) == 0);
  REQUIRE(mdb_txn_begin(env, nullptr, 0, &txn) == 0);
  REQUIRE(mdb_dbi_open(txn, database, 0, &dbi) == 0);
  REQUIRE(mdb_get(txn, dbi, &raw_key, &value) == 0);
  std::string bytes(static_cast<const char*>(value.mv_data), value.mv_size);
  change(bytes);
  value = {bytes.size(), bytes.data()};
  REQUIRE(mdb_put(txn, dbi, &raw_key, &value, 0) == 0);
  REQUIRE(mdb_txn_commit(txn) == 0);
  mdb_env_close(env);
}

std::string page_key(std::uint32_t space, std::uint64_t number) {
  const auto key = encode_index_key(SpaceNo{space}, hash_of(number));
  return {key.begin(), key.end()};
}

void fill(const std::string& dir, std::uint64_t rows) {
  const auto index = make_index(dir);
  REQUIRE(index->open(identity_of(1)));
  IndexBatch batch;
  batch.spaces = {space_of(1), space_of(2)};
  for (std::uint64_t i = 0; i < rows; ++i) {
    batch.puts.push_back(row_of(1, i, static_cast<std::uint32_t>(i)));
  }
  REQUIRE(commit(*index, std::move(batch)));
}

}  // namespace

TEST_CASE("a rotten row is damage of the index, and so is a rotten space or state") {
  const TempDir dir;
  fill(dir.str(), 10);
  const auto [database, key, at] =
      GENERATE_REF(std::tuple{"pages", page_key(1, 4), 30},
                   std::tuple{"spaces", std::string("\0\0\0\1", 4), 20},
                   std::tuple{"meta", std::string("state"), 9});
  change_value(dir.file("index.lmdb"), database, key, [place = at](std::string& bytes) {
    bytes[static_cast<std::size_t>(place)] ^= 1;
  });
  const auto index = make_index(dir.str());

  const auto opened = index->open(identity_of(1));

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == Code::corrupt);
  REQUIRE(index->reset(identity_of(1)));
  CHECK(visit_all(*index).rows.empty());
}

TEST_CASE("a row that rots after the index was opened is skipped and reported") {
  const TempDir dir;
  fill(dir.str(), 10);
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  // In place: another environment over the same file would move the page.
  std::fstream file(dir.file("index.lmdb"), std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes(64 * 4096, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.clear();
  const std::string key = page_key(1, 4);
  for (auto at = bytes.find(key); at != std::string::npos; at = bytes.find(key, at + 1)) {
    const char rotten = static_cast<char>(bytes[at + key.size() + 30] ^ 1);
    file.seekp(static_cast<std::streamoff>(at + key.size() + 30)).write(&rotten, 1);
  }
  file.close();

  const Seen seen = visit_all(*index);

  CHECK(seen.rows.size() == 9);
  REQUIRE(seen.damaged_keys.size() == 1);
  CHECK(seen.damaged_keys[0].space == SpaceNo{1});
  CHECK(seen.damaged_keys[0].page == hash_of(4));
  CHECK(seen.spaces.size() == 2);
}

TEST_CASE("a rotten identity is damage, not another store") {
  const TempDir dir;
  fill(dir.str(), 3);
  change_value(dir.file("index.lmdb"), "meta", "identity",
               [](std::string& bytes) { bytes[9] ^= 1; });
  const auto index = make_index(dir.str());

  const auto opened = index->open(identity_of(1));

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == Code::corrupt);
}

TEST_CASE("a file that was cut short is corrupt and not mapped, and reset sets it aside") {
  const TempDir dir;
  fill(dir.str(), 1000);
  const auto full = std::filesystem::file_size(dir.file("index.lmdb"));
  std::filesystem::resize_file(dir.file("index.lmdb"), full - 4096);
  const auto index = make_index(dir.str());

  const auto opened = index->open(identity_of(1));

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == Code::corrupt);
  CHECK(opened.error().text.find(" is cut short: ") != std::string::npos);
  REQUIRE(index->reset(identity_of(1)));
  CHECK(std::filesystem::file_size(dir.file("index.lmdb.damaged")) == full - 4096);
  REQUIRE(commit(*index, {{}, {row_of(1, 1, 1)}, {}}));
  CHECK(visit_all(*index).rows.size() == 1);
}

TEST_CASE("the file has the length of its map before a commit can count on it, and is sparse") {
  const TempDir dir;
  const std::string path = dir.file("index.lmdb");
  std::uint64_t bytes = 0;
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    bytes = index->map_bytes();
    CHECK(std::filesystem::file_size(path) == bytes);
    for (std::uint32_t i = 0; i < 50; ++i) {
      REQUIRE(commit(*index, {{}, {row_of(1, i, i)}, {{SpaceNo{1}, hash_of(i / 2)}}}));
      CHECK(std::filesystem::file_size(path) == bytes);
    }
  }
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK(info.st_blocks * 512 < 1 << 20);

  // A start that asks for a larger map makes the file longer before it commits anything.
  const auto larger = make_index(dir.str(), 200'000);
  REQUIRE(larger->open(identity_of(1)));
  CHECK(larger->map_bytes() > bytes);
  CHECK(std::filesystem::file_size(path) == larger->map_bytes());
}

TEST_CASE("a closed index can be opened again, and a reset that was broken off can be repeated") {
  const TempDir dir;
  fill(dir.str(), 3);
  const auto index = make_index(dir.str());
  CHECK(index->is_dead());
  REQUIRE(index->open(identity_of(1)));
  CHECK_FALSE(index->is_dead());
  index->close();

  REQUIRE(index->open(identity_of(1)));
  CHECK(visit_all(*index).rows.size() == 3);
  index->close();

  // Damaged, and set aside by an attempt that got no further.
  std::filesystem::resize_file(dir.file("index.lmdb"), 4096);
  CHECK(index->open(identity_of(1)).error().code == Code::corrupt);
  std::filesystem::rename(dir.file("index.lmdb"), dir.file("index.lmdb.damaged"));
  REQUIRE(index->reset(identity_of(1)));
  CHECK(visit_all(*index).rows.empty());
}

TEST_CASE("files that are no index are corrupt") {
  const TempDir dir;
  const auto content = GENERATE(std::string(), std::string("short"), std::string(100'000, '\0'));
  std::ofstream(dir.file("index.lmdb")) << content;
  const auto index = make_index(dir.str());

  const auto opened = index->open(identity_of(1));

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == Code::corrupt);
  CHECK(check_lmdb_file(dir.file("index.lmdb")).error().code == Code::corrupt);
  CHECK(check_lmdb_file(dir.file("absent")).error().code == Code::not_found);
}

TEST_CASE("a file with a broken second header is corrupt") {
  const TempDir dir;
  fill(dir.str(), 3);
  std::fstream file(dir.file("index.lmdb"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 16).write("XXXX", 4);
  file.close();

  CHECK(check_lmdb_file(dir.file("index.lmdb")).error().code == Code::corrupt);
}

TEST_CASE("a half-made index of an earlier start is thrown away") {
  const TempDir dir;
  std::ofstream(dir.file("index.lmdb.new")) << "half";
  std::ofstream(dir.file("index.lmdb.new-lock")) << "half";

  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));

  CHECK_FALSE(std::filesystem::exists(dir.file("index.lmdb.new")));
  CHECK_FALSE(std::filesystem::exists(dir.file("index.lmdb.new-lock")));
  CHECK(visit_all(*index).rows.empty());
}

TEST_CASE("after a failed write every commit fails with its error, until a reset") {
  const TempDir dir;
  const int result = Child([&] {
    auto index = make_index(dir.str());
    HC_CHECK(index->open(identity_of(1)));
    HC_CHECK(commit(*index, {{}, {row_of(1, 1, 1)}, {}}));
    // EFBIG stands for a failed device: what it leaves in memory can't be trusted either.
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    HC_CHECK(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
    const rlimit tight{1, limit.rlim_max};
    HC_CHECK(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
    const auto failed = commit(*index, {{}, {row_of(1, 2, 2)}, {}});
    HC_CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const auto again = commit(*index, {{}, {row_of(1, 3, 3)}, {}});
    if (failed || failed.error().sys_errno != EFBIG || again || again.error().sys_errno != EFBIG) {
      return 1;
    }
    const auto revived = index->reset(identity_of(1, 2));
    return revived && commit(*index, {{}, {row_of(1, 4, 4)}, {}}) ? 0 : 2;
  }).wait();

  CHECK(result == 0);
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1, 2)));
  CHECK(visit_all(*index).rows == std::vector{row_of(1, 4, 4)});
}

TEST_CASE("a batch that failed leaves the last committed state") {
  const TempDir dir;
  const int result = Child([&] {
    auto index = make_index(dir.str());
    HC_CHECK(index->open(identity_of(1)));
    HC_CHECK(commit(*index, {{}, {row_of(1, 1, 1)}, {}}));
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit tight{1, 1};
    HC_CHECK(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
    return commit(*index, {{}, {row_of(1, 2, 2)}, {{SpaceNo{1}, hash_of(1)}}}) ? 1 : 0;
  }).wait();

  CHECK(result == 0);
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  CHECK(visit_all(*index).rows == std::vector{row_of(1, 1, 1)});
}

TEST_CASE("a commit or a visit without an open index is an error") {
  const TempDir dir;
  const auto index = make_index(dir.str());

  CHECK(commit(*index, {{}, {row_of(1, 1, 1)}, {}}).error().code == Code::io_error);
  CHECK(index->visit({}).error().code == Code::io_error);
}

TEST_CASE("codes of LMDB become ours") {
  CHECK(lmdb_error("x", ENOSPC).code == Code::no_space);
  CHECK(lmdb_error("x", MDB_MAP_FULL).code == Code::no_space);
  CHECK(lmdb_error("x", EIO).code == Code::io_error);
  CHECK(lmdb_error("x", MDB_PANIC).code == Code::io_error);
  CHECK(lmdb_error("x", MDB_CORRUPTED).code == Code::corrupt);
}

}  // namespace hc::test
