// SPDX-License-Identifier: Apache-2.0
// reload_board_test: each rank has a part of its own, and events keep their order and their limit.
#include "client/ctl/reload_board.h"

#include "support/catch.h"

namespace hc {

TEST_CASE("what one rank writes is in nobody else's part", "[ctl]") {
  Trace trace;
  trace.add({}, std::vector<std::uint64_t>{1});
  trace.add({}, std::vector<std::uint64_t>{2});
  const auto boards = ReloadBoards::make(3, trace);
  REQUIRE(boards);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    boards->totals(rank).load_misses = rank + 1;
    boards->acked(rank)[1] = rank + 10;
  }
  boards->admitted()[1] = 99;
  REQUIRE(boards->add_event({ReloadEvent::Kind::load, 1, 2, 3, 0}));

  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(boards->totals(rank).load_misses == rank + 1);
    CHECK(boards->acked(rank)[0] == 0);
    CHECK(boards->acked(rank)[1] == rank + 10);
  }
  CHECK(boards->admitted()[1] == 99);
  REQUIRE(boards->events().size() == 1);
  CHECK(boards->events()[0].kind == ReloadEvent::Kind::load);
  CHECK(boards->events()[0].count == 3);
}

TEST_CASE("events end where their memory does, and say so", "[ctl]") {
  Trace trace;
  trace.add({}, std::vector<std::uint64_t>{1});
  const auto boards = ReloadBoards::make(1, trace);
  REQUIRE(boards);
  std::uint32_t count = 0;
  while (count < 1000 && boards->add_event({ReloadEvent::Kind::store, count, 0, 1, 0})) {
    ++count;
  }

  CHECK(count >= 12);
  CHECK(count < 1000);
  REQUIRE(boards->events().size() == count);
  CHECK(boards->events().back().request == count - 1);
}

}  // namespace hc
