// SPDX-License-Identifier: Apache-2.0
// lmdb_kill_test: a process killed while it commits loses nothing that it had acknowledged.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <random>
#include <set>

#include "daemon/index/lmdb_file.h"
#include "index_fixture.h"
#include "support/child.h"

namespace hc::test {

namespace {

constexpr std::uint32_t kRowsPerBatch = 200;

// Commits batch after batch and writes each number to `ack` once it was committed. Batch n puts
// its own rows and erases those of batch n - 3, so that pages are freed and used again.
int commit_forever(const std::string& dir, int ack, std::uint32_t first) {
  auto index = LmdbIndex::create({dir, 1000, 2, 10'000});
  if (!index || !(*index)->open(identity_of(1))) {
    return 1;
  }
  for (std::uint32_t number = first;; ++number) {
    IndexBatch batch;
    for (std::uint32_t i = 0; i < kRowsPerBatch; ++i) {
      batch.puts.push_back(row_of(number, i, number));
      if (number >= 3) {
        batch.erases.push_back({SpaceNo{number - 3}, hash_of(i)});
      }
    }
    (*index)->commit(std::move(batch));
    (*index)->wait();
    const auto result = (*index)->poll();
    if (!result || !*result || ::write(ack, &number, sizeof number) != sizeof number) {
      return 2;
    }
  }
}

// The last number acknowledged before the pipe ended; reads `count` of them, then kills.
std::uint32_t kill_after(Child& child, int ack, std::uint32_t count, std::uint32_t wait_us) {
  std::uint32_t last = 0;
  std::uint32_t number = 0;
  for (std::uint32_t i = 0; i < count && ::read(ack, &number, sizeof number) > 0; ++i) {
    last = number;
  }
  ::usleep(wait_us);  // waits: any moment inside of a commit may be the last one
  child.kill_now();
  while (::read(ack, &number, sizeof number) > 0) {
    last = number;
  }
  return last;
}

}  // namespace

TEST_CASE("after a kill at any moment the index opens and holds every acknowledged batch") {
  const TempDir dir;
  std::minstd_rand engine(20260801);
  const auto random = [&engine](std::uint32_t below) {
    return static_cast<std::uint32_t>(engine()) % below;
  };
  std::uint32_t next = 1;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round, next);
    std::array<int, 2> ack{};
    REQUIRE(::pipe(ack.data()) == 0);
    Child child([&] {
      ::close(ack[0]);
      return commit_forever(dir.str(), ack[1], next);
    });
    ::close(ack[1]);
    const std::uint32_t acknowledged =
        kill_after(child, ack[0], 1 + random(5), random(20'000));
    ::close(ack[0]);
    REQUIRE(acknowledged >= next);

    REQUIRE(check_lmdb_file(dir.file("index.lmdb")));
    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    const Seen seen = visit_all(*index);
    CHECK(seen.damaged.empty());

    // A batch is there in full or not at all; the newest is the acknowledged one or the next.
    std::map<std::uint32_t, std::uint32_t> rows_of_batch;
    for (const IndexRow& row : seen.rows) {
      ++rows_of_batch[row.space.value];
      CHECK(row.parts.at(0).slot == row.space.value);
    }
    const std::uint32_t newest = rows_of_batch.rbegin()->first;
    CHECK((newest == acknowledged || newest == acknowledged + 1));
    CHECK(rows_of_batch.size() == std::min(newest, 3U));
    for (const auto& [number, rows] : rows_of_batch) {
      CHECK(number + 3 > newest);
      CHECK(rows == kRowsPerBatch);
    }
    next = newest + 1;
  }
}

TEST_CASE("a kill during creation leaves no index or a complete one") {
  std::minstd_rand engine(7);
  for (int round = 0; round < 20; ++round) {
    const TempDir dir;
    Child child([&] {
      auto index = LmdbIndex::create({dir.str(), 1000, 2, 0});
      return index && (*index)->open(identity_of(1)) ? 0 : 1;
    });
    const auto moment_us = static_cast<std::uint32_t>(engine()) % 8'000;
    ::usleep(moment_us);  // waits: any moment of the creation may be the last one
    child.kill_now();

    const auto index = make_index(dir.str());
    REQUIRE(index->open(identity_of(1)));
    CHECK(visit_all(*index).rows.empty());
  }
}

}  // namespace hc::test
