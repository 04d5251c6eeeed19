// SPDX-License-Identifier: Apache-2.0
// lmdb_index_test: what was committed is there after a restart, for its own store alone.
#include "daemon/index/lmdb_index.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "daemon/os/epoll.h"
#include "index_fixture.h"
#include "support/child.h"

namespace hc::test {

TEST_CASE("committed spaces and rows are there after a restart, spaces first, rows in key order") {
  const TempDir dir;
  IndexBatch batch;
  for (std::uint64_t i = 0; i < 300; ++i) {
    batch.puts.push_back(row_of(i % 2 == 0 ? 1 : 256, i, static_cast<std::uint32_t>(i)));
  }
  batch.spaces = {space_of(256), space_of(1)};
  auto expected = batch.puts;
  std::sort(expected.begin(), expected.end(), [](const IndexRow& a, const IndexRow& b) {
    return encode_index_key(a.space, a.page) < encode_index_key(b.space, b.page);
  });
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    REQUIRE(commit(*index, batch));
  }

  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  const Seen seen = visit_all(*index);

  REQUIRE(seen.spaces.size() == 2);
  CHECK(seen.spaces[0].number == SpaceNo{1});
  CHECK(seen.spaces[0].descriptor == space_of(1).descriptor);
  CHECK(seen.spaces[0].shards_on_node == 2);
  CHECK(seen.spaces[1].number == SpaceNo{256});
  CHECK(seen.rows == expected);
  CHECK(seen.damaged.empty());
}

TEST_CASE("an index of another store or another epoch is replaced by an empty one") {
  const TempDir dir;
  const auto other = GENERATE(identity_of(2, 1), identity_of(1, 2));
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1, 1)));
    REQUIRE(commit(*index, {{space_of(1)}, {row_of(1, 5, 6)}, {}}));
  }
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(other));
    const Seen seen = visit_all(*index);
    CHECK(seen.spaces.empty());
    CHECK(seen.rows.empty());
  }

  // And it stays so: the first owner doesn't get its rows back.
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1, 1)));
  CHECK(visit_all(*index).rows.empty());
}

TEST_CASE("reset empties the index for a new identity, and it goes on") {
  const TempDir dir;
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  REQUIRE(commit(*index, {{}, {row_of(1, 5, 6)}, {}}));

  REQUIRE(index->reset(identity_of(1, 2)));

  CHECK(visit_all(*index).rows.empty());
  REQUIRE(commit(*index, {{}, {row_of(1, 7, 8)}, {}}));
  CHECK(visit_all(*index).rows == std::vector{row_of(1, 7, 8)});
}

TEST_CASE("a put replaces, an erase removes, and erasing an absent row is fine") {
  const TempDir dir;
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  REQUIRE(commit(*index, {{}, {row_of(1, 1, 10), row_of(1, 2, 20), row_of(2, 1, 30)}, {}}));

  REQUIRE(commit(*index, {{},
                          {row_of(1, 2, 99)},
                          {{SpaceNo{1}, hash_of(1)}, {SpaceNo{1}, hash_of(777)}}}));

  CHECK(visit_all(*index).rows == std::vector{row_of(1, 2, 99), row_of(2, 1, 30)});
}

TEST_CASE("a row that is erased and put in one batch is there afterwards") {
  const TempDir dir;
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  REQUIRE(commit(*index, {{}, {row_of(1, 1, 10)}, {}}));

  REQUIRE(commit(*index, {{}, {row_of(1, 1, 11)}, {{SpaceNo{1}, hash_of(1)}}}));

  CHECK(visit_all(*index).rows == std::vector{row_of(1, 1, 11)});
}

TEST_CASE("the map grows when it is full, and nothing of the batch is lost") {
  const TempDir dir;
  const auto index = make_index(dir.str(), 0);
  REQUIRE(index->open(identity_of(1)));
  const std::uint64_t before = index->map_bytes();
  CHECK(before == 64ULL << 20);
  CHECK(std::filesystem::file_size(dir.file("index.lmdb")) == before);

  // Rows of the most parts are about a kilobyte: 96,000 of them don't fit into 64 MiB.
  std::uint64_t number = 0;
  for (int batch_number = 0; batch_number < 6; ++batch_number) {
    IndexBatch batch;
    for (int i = 0; i < 16'000; ++i) {
      IndexRow row{SpaceNo{1}, hash_of(number), number, {}};
      row.parts.resize(kPartsMax, IndexRowPart{0, 0, 0, 0, 1, 1});
      batch.puts.push_back(std::move(row));
      ++number;
    }
    REQUIRE(commit(*index, std::move(batch)));
  }

  CHECK(index->map_bytes() >= 2 * before);
  CHECK(std::filesystem::file_size(dir.file("index.lmdb")) == index->map_bytes());
  std::uint64_t rows = 0;
  REQUIRE(index->visit({[](const IndexSpace&) {}, [&](const IndexRow&) { ++rows; },
                        [](const Error& error) { FAIL(error.text); }}));
  CHECK(rows == number);
}

TEST_CASE("a file larger than the map that is expected now is opened all the same") {
  const TempDir dir;
  {
    const auto index = make_index(dir.str(), 0);
    REQUIRE(index->open(identity_of(1)));
    for (std::uint32_t i = 0; i < 6; ++i) {
      IndexBatch batch;
      for (std::uint32_t j = 0; j < 16'000; ++j) {
        IndexRow row{SpaceNo{1}, hash_of(i * 16'000 + j), 1, {}};
        row.parts.resize(kPartsMax, IndexRowPart{});
        batch.puts.push_back(std::move(row));
      }
      REQUIRE(commit(*index, std::move(batch)));
    }
  }

  const auto index = make_index(dir.str(), 0);
  REQUIRE(index->open(identity_of(1)));
  REQUIRE(commit(*index, {{space_of(3)}, {row_of(2, 1, 1)}, {}}));
  CHECK(visit_all(*index).rows.size() == 96'001);
}

TEST_CASE("poll answers nothing until the batch is through, and the event tells when") {
  const TempDir dir;
  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  auto epoll = Epoll::create();
  REQUIRE(epoll);
  REQUIRE(epoll->add(index->event_fd(), Trigger::edge, 1));
  CHECK_FALSE(index->poll().has_value());
  CHECK(epoll->wait(0).empty());

  index->commit({{}, {row_of(1, 1, 1)}, {}});
  std::optional<Result<void>> result;
  while (!result) {
    REQUIRE_FALSE(epoll->wait(-1).empty());
    result = index->poll();
  }

  CHECK(result->has_value());
  CHECK_FALSE(index->poll().has_value());
  CHECK(epoll->wait(0).empty());
}

TEST_CASE("an index that goes away finishes the batch in flight") {
  const TempDir dir;
  {
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    index->commit({{}, {row_of(1, 1, 1)}, {}});
  }

  const auto index = make_index(dir.str());
  REQUIRE(index->open(identity_of(1)));
  CHECK(visit_all(*index).rows.size() == 1);
}

TEST_CASE("a second process on the same index is refused with one line") {
  const TempDir dir;
  const int result = Child([&] {
    const auto first = LmdbIndex::create({dir.str(), 10, 1, 0});
    const auto second = LmdbIndex::create({dir.str(), 10, 1, 0});
    return first && !second && second.error().code == Code::refused &&
                   second.error().message() ==
                       "index " + dir.str() + " is locked by another daemon"
               ? 0
               : 1;
  }).wait();

  CHECK(result == 0);
}

TEST_CASE("the address space follows the rows that are expected") {
  constexpr std::uint64_t kMiB64 = 64ULL << 20;
  CHECK(index_map_bytes(0, 1) == kMiB64);
  CHECK(index_map_bytes(1 << 20, 1) == kMiB64 + (512ULL << 20));
  CHECK(index_map_bytes(1 << 20, 4) == kMiB64 + (2048ULL << 20));
  CHECK(index_map_bytes(1, 1) == kMiB64);
  CHECK(index_map_bytes(0xFFFFFFFFFFFFFFFF, 64) == 8ULL << 40);
}

}  // namespace hc::test
