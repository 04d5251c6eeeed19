// SPDX-License-Identifier: Apache-2.0
// lmdb_failure_test: full disks, short writes and pages of LMDB's own that are damaged.
// daemon/index/lmdb_index.cpp, daemon/index/lmdb_env.cpp, daemon/index/lmdb_file.cpp
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "daemon/index/lmdb_env.h"
#include "daemon/index/lmdb_file.h"
#include "index_fixture.h"
#include "support/child.h"

namespace hc::test {

namespace {

constexpr std::size_t kPageBytes = 4096;

IndexBatch rows_batch(std::uint64_t rows) {
  IndexBatch batch;
  for (std::uint64_t i = 0; i < rows; ++i) {
    batch.puts.push_back(row_of(1, i, static_cast<std::uint32_t>(i)));
  }
  return batch;
}

// Writes that reach beyond it come out short; those that begin beyond it fail.
void limit_files_to(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  HC_CHECK(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  HC_CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

// The part of the file that holds anything: the rest of an index is sparse.
std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(1 << 20, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// The page's number and flags, from its header.
std::uint64_t number_of(const std::string& page) {
  std::uint64_t number = 0;
  std::memcpy(&number, page.data(), sizeof number);
  return number;
}

std::uint16_t flags_of(const std::string& page) {
  std::uint16_t flags = 0;
  std::memcpy(&flags, page.data() + 10, sizeof flags);
  return flags;
}

// Damages every page of the file that is a branch (1) or a leaf (2) and holds `content`.
int damage_pages(const std::string& path, std::uint16_t flags, const std::string& content) {
  const std::string bytes = content_of(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  int damaged = 0;
  for (std::size_t at = 2 * kPageBytes; at + kPageBytes <= bytes.size(); at += kPageBytes) {
    const std::string page = bytes.substr(at, kPageBytes);
    if (number_of(page) == at / kPageBytes && flags_of(page) == flags &&
        page.find(content) != std::string::npos) {
      file.seekp(static_cast<std::streamoff>(at)).write(std::string(16, '\0').data(), 16);
      ++damaged;
    }
  }
  return damaged;
}

std::string key_text(std::uint64_t number) {
  const auto key = encode_index_key(SpaceNo{1}, hash_of(number));
  return {key.begin(), key.end()};
}

void fill_rows(const std::string& dir, std::uint64_t rows) {
  const auto index = make_index(dir);
  REQUIRE(index->open(identity_of(1)));
  REQUIRE(commit(*index, rows_batch(rows)));
}

}  // namespace

TEST_CASE("no lock file is made, which a full disk would make a signal, and stale ones go") {
  const TempDir dir;
  std::ofstream(dir.file("index.lmdb-lock")) << "stale";
  std::ofstream(dir.file("index.lmdb.new-lock")) << "stale";
  const auto index = make_index(dir.str());
  const auto lock_files = [&] {
    return std::filesystem::exists(dir.file("index.lmdb-lock")) ||
           std::filesystem::exists(dir.file("index.lmdb.new-lock"));
  };

  REQUIRE(index->open(identity_of(1)));
  CHECK_FALSE(lock_files());
  REQUIRE(commit(*index, {{}, {row_of(1, 1, 1)}, {}}));
  REQUIRE(index->reset(identity_of(1, 2)));
  CHECK_FALSE(lock_files());
  index->close();
  REQUIRE(index->open(identity_of(1, 2)));
  CHECK_FALSE(lock_files());
}

TEST_CASE("a reset without space says so, changes no file, takes no rows, and can be repeated") {
  const TempDir dir;
  const int result = Child([&] {
    auto index = make_index(dir.str());
    HC_CHECK(index->open(identity_of(1)));
    HC_CHECK(commit(*index, {{}, {row_of(1, 1, 1)}, {}}));
    const std::string before = content_of(dir.file("index.lmdb"));
    limit_files_to(1);
    const auto full = index->reset(identity_of(1, 2));
    limit_files_to(RLIM_INFINITY);
    if (full || full.error().code != Code::no_space || !index->is_dead()) {
      return 1;
    }
    const auto refused = commit(*index, {{}, {row_of(1, 2, 2)}, {}});
    if (refused || refused.error().code != Code::no_space ||
        content_of(dir.file("index.lmdb")) != before) {
      return 2;
    }
    const auto reset = index->reset(identity_of(1, 2));
    return reset && commit(*index, {{}, {row_of(1, 3, 3)}, {}}) ? 0 : 3;
  }).wait();

  CHECK(result == 0);
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1, 2)));
  CHECK(visit_all(*index).rows == std::vector{row_of(1, 3, 3)});
}

TEST_CASE("a write that comes out short fails its batch, and the index lives on") {
  const TempDir dir;
  const int result = Child([&] {
    auto index = make_index(dir.str());
    HC_CHECK(index->open(identity_of(1)));
    HC_CHECK(commit(*index, {{}, {row_of(2, 1, 1)}, {}}));
    limit_files_to(20 * kPageBytes + 100);
    const auto cut = commit(*index, rows_batch(1000));
    limit_files_to(RLIM_INFINITY);
    if (cut || cut.error().code != Code::io_error || cut.error().sys_errno != EIO) {
      return 1;
    }
    return !index->is_dead() && commit(*index, rows_batch(1000)) ? 0 : 2;
  }).wait();

  CHECK(result == 0);
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  CHECK(visit_all(*index).rows.size() == 1001);
}

TEST_CASE("a write that comes out short on a file system without space is told as that") {
  CHECK(lmdb_write_error("x", EIO, (1 << 20) - 1).code == Code::no_space);
  CHECK(lmdb_write_error("x", EIO, 1 << 20).code == Code::io_error);
  CHECK(lmdb_write_error("x", EFBIG, 0).code == Code::io_error);
  CHECK(lmdb_write_error("x", ENOSPC, 1 << 30).code == Code::no_space);
}

TEST_CASE("where the file can't be opened again after a short write, the index is dead") {
  const TempDir dir;
  const int result = Child([&] {
    auto index = make_index(dir.str());
    HC_CHECK(index->open(identity_of(1)));
    limit_files_to(20 * kPageBytes + 100);
    std::filesystem::remove(dir.file("index.lmdb"));
    const auto cut = commit(*index, rows_batch(1000));
    limit_files_to(RLIM_INFINITY);
    if (cut || !index->is_dead() || commit(*index, {{}, {row_of(1, 1, 1)}, {}})) {
      return 1;
    }
    return index->reset(identity_of(1)) && !index->is_dead() ? 0 : 2;
  }).wait();

  CHECK(result == 0);
}

TEST_CASE("a damaged root page is found before LMDB meets it") {
  const TempDir dir;
  fill_rows(dir.str(), 1000);
  const std::string path = dir.file("index.lmdb");
  REQUIRE(check_lmdb_file(path));
  // The tree of names, the tree of identities, and the branch over the rows.
  const auto [flags, content] = GENERATE(std::pair{2, "spaces"}, std::pair{2, "identity"},
                                         std::pair{1, ""});
  REQUIRE(damage_pages(path, static_cast<std::uint16_t>(flags), content) >= 1);
  const auto index = make_index(dir.str());

  const auto opened = index->open(identity_of(1));

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == Code::corrupt);
  CHECK(opened.error().text.find("damaged root page") != std::string::npos);
  CHECK(index->reset(identity_of(1)));
}

TEST_CASE("a damaged page inside is found before LMDB meets it") {
  const TempDir dir;
  fill_rows(dir.str(), 1000);
  REQUIRE(damage_pages(dir.file("index.lmdb"), 2, key_text(500)) == 1);
  const auto index = make_index(dir.str());

  const auto opened = index->open(identity_of(1));

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == Code::corrupt);
  REQUIRE(index->reset(identity_of(1, 2)));
  CHECK(visit_all(*index).rows.empty());
}

}  // namespace hc::test
