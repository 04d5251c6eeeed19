// SPDX-License-Identifier: Apache-2.0
// board_notice_test: what the group's board says of its members, to an agreement that reduces
// elsewhere.
#include "client/agree/board_notice.h"

#include <unistd.h>

#include "support/catch.h"

namespace hc {
namespace {

AgreementBoard member_of(const BoardWatcher& watcher, std::uint32_t rank) {
  auto board = AgreementBoard::attach(UniqueFd(::dup(watcher.fd())), rank, 2, 8);
  REQUIRE(board);
  return std::move(*board);
}

TEST_CASE("board notice: given when a member has died, and when one has left") {
  const bool dies = GENERATE(true, false);
  CAPTURE(dies);
  auto watcher = BoardWatcher::create(2, 8);
  REQUIRE(watcher);
  const BoardNotice notice(member_of(*watcher, 0));
  AgreementBoard other = member_of(*watcher, 1);
  CHECK_FALSE(notice.is_given());

  if (dies) {
    watcher->mark_dead(1);
  } else {
    other.leave();
  }

  CHECK(notice.is_given());
}

TEST_CASE("board notice: who lets go of it leaves the board, and it can be given by hand") {
  auto watcher = BoardWatcher::create(2, 8);
  REQUIRE(watcher);
  const BoardNotice other(member_of(*watcher, 1));
  {
    BoardNotice notice(member_of(*watcher, 0));
    notice.give();
    CHECK(notice.is_given());
    CHECK_FALSE(other.is_given());
  }

  CHECK(other.is_given());
}

}  // namespace
}  // namespace hc
