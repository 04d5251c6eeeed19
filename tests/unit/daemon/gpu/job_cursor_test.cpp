// SPDX-License-Identifier: Apache-2.0
// job_cursor_test: how runs become pieces.
#include "shm/gpu/job_cursor.h"

#include <array>
#include <cstdint>
#include <vector>

#include "support/catch.h"

namespace hc {
namespace {

constexpr std::uint64_t kAll = 1ULL << 40;

std::vector<CopyPiece> pieces_of(const CopyJob& job, std::uint64_t bytes_max) {
  std::vector<CopyPiece> pieces;
  JobCursor cursor(job);
  while (!cursor.at_end()) {
    pieces.push_back(cursor.next(bytes_max));
  }
  return pieces;
}

struct Frame {
  std::array<std::uint8_t, 1000> bytes{};
  CopyJob job(const std::vector<CopyRun>& runs) {
    CopyJob made;
    made.frame = bytes.data();
    made.runs = runs;
    return made;
  }
  std::uint64_t at(const CopyPiece& piece) const {
    return static_cast<std::uint64_t>(piece.host - bytes.data());
  }
};

TEST_CASE("runs that are apart in the client's memory are pieces in their order") {
  Frame frame;
  const std::vector<CopyRun> runs{{500, 10}, {20, 30}, {100, 7}};

  const auto pieces = pieces_of(frame.job(runs), kAll);

  REQUIRE(pieces.size() == 3);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CHECK(pieces[i].offset == runs[i].address);
    CHECK(pieces[i].size_bytes == runs[i].size_bytes);
    CHECK(frame.at(pieces[i]) == done);
    done += runs[i].size_bytes;
  }
}

TEST_CASE("runs that follow each other are one piece, and those that only touch at the back not") {
  Frame frame;
  const std::vector<CopyRun> runs{{40, 10}, {50, 30}, {80, 1}, {30, 10}};

  const auto pieces = pieces_of(frame.job(runs), kAll);

  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].offset == 40);
  CHECK(pieces[0].size_bytes == 41);
  CHECK(pieces[1].offset == 30);
  CHECK(frame.at(pieces[1]) == 41);
}

TEST_CASE("a piece ends at the bytes that are left, in the middle of a run or of several") {
  Frame frame;
  const std::vector<CopyRun> runs{{0, 10}, {10, 10}, {100, 25}};

  const auto pieces = pieces_of(frame.job(runs), 8);

  const std::vector<std::uint64_t> offsets{0, 8, 16, 100, 108, 116, 124};
  const std::vector<std::uint64_t> sizes{8, 8, 4, 8, 8, 8, 1};
  REQUIRE(pieces.size() == offsets.size());
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    CHECK(pieces[i].offset == offsets[i]);
    CHECK(pieces[i].size_bytes == sizes[i]);
    CHECK(frame.at(pieces[i]) == done);
    done += sizes[i];
  }
}

TEST_CASE("a piece that ends with its run leaves the next run whole") {
  Frame frame;
  const std::vector<CopyRun> runs{{0, 8}, {8, 8}};

  const auto pieces = pieces_of(frame.job(runs), 8);

  REQUIRE(pieces.size() == 2);
  CHECK(pieces[1].offset == 8);
  CHECK(pieces[1].size_bytes == 8);
}

TEST_CASE("a job without runs is at its end") {
  Frame frame;
  const std::vector<CopyRun> none;
  const CopyJob job = frame.job(none);
  CHECK(JobCursor(job).at_end());
}

}  // namespace
}  // namespace hc
