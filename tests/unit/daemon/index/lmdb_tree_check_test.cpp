// SPDX-License-Identifier: Apache-2.0
// lmdb_tree_check_test: every page of an index file, damaged as disks damage pages.
// daemon/index/lmdb_tree_check.cpp, daemon/index/lmdb_pages.h, daemon/index/lmdb_guard.cpp
#include <filesystem>
#include <fstream>
#include <cstring>
#include <sstream>

#include "daemon/index/lmdb_file.h"
#include "daemon/index/lmdb_tree_check.h"
#include "index_fixture.h"

namespace hc::test {

namespace {

constexpr std::size_t kTreePageBytes = 4096;

std::string read_used(const std::string& path) {
  std::string bytes(lmdb_used_bytes(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(),
                                             static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

void write_page(const std::string& path, std::size_t page, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(page * kTreePageBytes));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// An index with branches, free pages and a long descriptor, as work leaves it.
void fill_and_churn(const std::string& dir) {
  const auto index = make_index(dir);
  REQUIRE(index->open(identity_of(1)));
  IndexBatch batch;
  batch.spaces = {space_of(1), space_of(2)};
  auto& kinds = batch.spaces[1].descriptor.kinds;
  for (KindSpec kind = kinds[0]; kinds.size() < 8;) {
    kind.name = std::string(250, static_cast<char>('a' + kinds.size()));
    kinds.push_back(kind);
  }
  for (std::uint32_t i = 0; i < 2000; ++i) {
    batch.puts.push_back(row_of(1 + i % 2, i, i));
  }
  REQUIRE(commit(*index, std::move(batch)));
  for (std::uint32_t round = 0; round < 5; ++round) {
    IndexBatch churn;
    for (std::uint32_t i = round; i < 2000; i += 7) {
      churn.erases.push_back({SpaceNo{1 + i % 2}, hash_of(i)});
      churn.puts.push_back(row_of(1, 10'000 + round * 2000 + i, i));
    }
    churn.state = {round + 1, false};
    REQUIRE(commit(*index, std::move(churn)));
  }
}

Seen see(const std::string& dir) {
  const auto index = make_index(dir);
  REQUIRE(index->open(identity_of(1)));
  return visit_all(*index);
}

bool is_sound(const std::string& path) {
  return check_lmdb_file(path).has_value() && check_lmdb_trees(path).has_value();
}

}  // namespace

TEST_CASE("a sound index passes, with the rows and spaces that are in it") {
  const TempDir dir;
  fill_and_churn(dir.str());

  const auto facts = check_lmdb_trees(dir.file("index.lmdb"));

  REQUIRE(facts);
  const Seen seen = see(dir.str());
  CHECK(facts->rows == seen.rows.size());
  CHECK(facts->spaces == seen.spaces.size());
  CHECK(facts->used_bytes == read_used(dir.file("index.lmdb")).size());
}

TEST_CASE("whatever page is zeroed or overwritten by another one is found, unless it is free") {
  const TempDir dir;
  fill_and_churn(dir.str());
  const std::string path = dir.file("index.lmdb");
  const std::string bytes = read_used(path);
  const std::size_t pages = bytes.size() / kTreePageBytes;
  REQUIRE(pages > 40);
  const Seen whole = see(dir.str());
  std::size_t unseen = 0;
  std::ostringstream missed;
  for (std::size_t page = 0; page < pages; ++page) {
    const std::string good = bytes.substr(page * kTreePageBytes, kTreePageBytes);
    const std::string other = bytes.substr((page + 1) % pages * kTreePageBytes, kTreePageBytes);
    for (const std::string& bad : {std::string(kTreePageBytes, '\0'), other}) {
      write_page(path, page, bad);
      if (is_sound(path)) {
        ++unseen;
        const Seen seen = see(dir.str());
        if (seen.rows != whole.rows || !seen.damaged.empty()) {
          missed << page << ' ';
        }
      }
      write_page(path, page, good);
    }
  }
  CHECK(missed.str().empty());  // a page in use was damaged, and nothing noticed
  CHECK(unseen + 80 < 2 * pages);
  CHECK(is_sound(path));
}

TEST_CASE("a list of free pages that names a page in use is damage") {
  const TempDir dir;
  fill_and_churn(dir.str());
  const std::string path = dir.file("index.lmdb");
  const std::string bytes = read_used(path);
  std::size_t changed = 0;
  // A leaf whose keys are transactions: eight bytes each, with a list behind.
  for (std::size_t page = 2; page * kTreePageBytes < bytes.size(); ++page) {
    std::string copy = bytes.substr(page * kTreePageBytes, kTreePageBytes);
    std::uint16_t flags = 0;
    std::uint16_t node = 0;
    std::uint16_t key_bytes = 0;
    std::memcpy(&flags, copy.data() + 10, 2);
    std::memcpy(&node, copy.data() + 16, 2);
    if (flags != 2 || node + 24U > copy.size()) {
      continue;
    }
    std::memcpy(&key_bytes, copy.data() + node + 6, 2);
    if (key_bytes != 8) {
      continue;
    }
    std::uint64_t count = 0;
    std::memcpy(&count, copy.data() + node + 16, 8);
    const std::uint64_t in_use = 1;  // a header
    if (count > 0 && node + 32U <= copy.size()) {
      std::memcpy(copy.data() + node + 24, &in_use, 8);
      write_page(path, page, copy);
      ++changed;
    }
  }
  REQUIRE(changed > 0);

  const auto facts = check_lmdb_trees(path);

  REQUIRE_FALSE(facts);
  CHECK(facts.error().code == Code::corrupt);
}

TEST_CASE("a damaged page that is met by a commit costs the index, not the process") {
  const TempDir dir;
  fill_and_churn(dir.str());
  const std::string path = dir.file("index.lmdb");
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  const std::string bytes = read_used(path);
  for (std::size_t page = 2; page * kTreePageBytes < bytes.size(); ++page) {
    write_page(path, page, std::string(kTreePageBytes, '\0'));
  }

  const auto failed = commit(*index, {{}, {row_of(1, 5, 5)}, {}});

  REQUIRE_FALSE(failed);
  CHECK(index->is_dead());
  CHECK_FALSE(commit(*index, {{}, {row_of(1, 6, 6)}, {}}));

  IndexBatch fresh{{space_of(1)}, {row_of(1, 7, 7)}, {}};
  fresh.state = {9, true};
  fresh.fresh = identity_of(1);
  REQUIRE(commit(*index, std::move(fresh)));
  CHECK_FALSE(index->is_dead());
  CHECK(index->state() == IndexState{9, true});
  CHECK(visit_all(*index).rows == std::vector{row_of(1, 7, 7)});
  CHECK(std::filesystem::exists(dir.file("index.lmdb.damaged")));
}

TEST_CASE("a file that is cut while it is open costs the index, not the process") {
  const TempDir dir;
  fill_and_churn(dir.str());
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  std::filesystem::resize_file(dir.file("index.lmdb"), 2 * kTreePageBytes);

  CHECK_FALSE(commit(*index, {{}, {row_of(1, 5, 5)}, {}}));

  CHECK(index->is_dead());
  IndexBatch fresh{{}, {row_of(1, 7, 7)}, {}};
  fresh.fresh = identity_of(1);
  REQUIRE(commit(*index, std::move(fresh)));
  CHECK(visit_all(*index).rows.size() == 1);
}

TEST_CASE("the state of the last batch is there after a restart; an empty index has come nowhere") {
  const TempDir dir;
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    CHECK(index->state() == IndexState{});
    IndexBatch batch{{}, {row_of(1, 1, 1)}, {}};
    batch.state = {41, true};
    REQUIRE(commit(*index, std::move(batch)));
    CHECK(index->state() == IndexState{41, true});
  }
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    CHECK(index->state() == IndexState{41, true});
  }
  const auto other = make_index(dir.str());
  REQUIRE(other->open(identity_of(1, 2)));
  CHECK(other->state() == IndexState{});
}

}  // namespace hc::test
