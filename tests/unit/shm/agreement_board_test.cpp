// SPDX-License-Identifier: Apache-2.0
// agreement_board_test: ranks as threads with mappings of their own; a lost wake shows as a wait
// that runs into its very long limit.
#include "shm/agreement_board.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

constexpr std::int64_t kBoardLongNs = 60'000'000'000;
constexpr std::uint32_t kBoardWords = 138;

BoardWatcher make_board(std::uint32_t world, std::uint32_t words = kBoardWords) {
  auto board = BoardWatcher::create(world, words);
  REQUIRE(board);
  return std::move(*board);
}

UniqueFd board_fd(int fd) { return UniqueFd(::dup(fd)); }

AgreementBoard join(const BoardWatcher& watcher, std::uint32_t rank, std::uint32_t world,
                    std::uint32_t words = kBoardWords) {
  auto board = AgreementBoard::attach(board_fd(watcher.fd()), rank, world, words);
  REQUIRE(board);
  return std::move(*board);
}

using BoardVector = std::array<std::int64_t, kBoardWords>;

// What rank `rank` says in round `round`; the minimum over the ranks is known.
BoardVector said(std::uint32_t rank, std::uint64_t round) {
  BoardVector out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::int64_t>(mix(round * 1000 + i * 64 + rank) >> 1) - (1LL << 61);
  }
  return out;
}

BoardVector least(std::uint32_t world, std::uint64_t round) {
  BoardVector out = said(0, round);
  for (std::uint32_t rank = 1; rank < world; ++rank) {
    const BoardVector other = said(rank, round);
    std::transform(out.begin(), out.end(), other.begin(), out.begin(),
                   [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  }
  return out;
}

}  // namespace

TEST_CASE("every rank gets the minimum of every round, sleeping or spinning") {
  const auto world = GENERATE(1U, 2U, 5U);
  const auto spin_ns = GENERATE(std::int64_t{0}, std::int64_t{200'000});
  CAPTURE(world, spin_ns);
  constexpr std::uint64_t kRounds = 400;
  const BoardWatcher watcher = make_board(world);
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank, board = join(watcher, rank, world)]() mutable {
      BoardVector out{};
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        board.tell(said(rank, round));
        const bool good = board.take(out, spin_ns, kBoardLongNs) == Code::ok;
        wrong += good && out == least(world, round) ? 0U : 1U;
      }
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  CHECK(wrong.load() == 0);
}

TEST_CASE("a rank that gives up a round gives it up for all, whoever tells it later") {
  const BoardWatcher watcher = make_board(2);
  AgreementBoard one = join(watcher, 0, 2);
  AgreementBoard other = join(watcher, 1, 2);
  BoardVector out{};
  one.tell(said(0, 1));
  CHECK(one.take(out, 0, 1'000'000) == Code::timed_out);
  other.tell(said(1, 1));
  CHECK(other.take(out, 0, kBoardLongNs) == Code::disconnected);
}

TEST_CASE("a rank whose time is up takes a round that the others have taken") {
  const BoardWatcher watcher = make_board(2);
  AgreementBoard one = join(watcher, 0, 2);
  AgreementBoard other = join(watcher, 1, 2);
  BoardVector out{};
  one.tell(said(0, 1));
  other.tell(said(1, 1));
  CHECK(other.take(out, 0, kBoardLongNs) == Code::ok);
  CHECK(one.take(out, 0, 0) == Code::ok);
  CHECK(out == least(2, 1));
}

TEST_CASE("a rank that gives up ends the wait of those who wait for a third") {
  const BoardWatcher watcher = make_board(3);
  AgreementBoard one = join(watcher, 0, 3);
  AgreementBoard two = join(watcher, 1, 3);
  one.tell(said(0, 1));
  two.tell(said(1, 1));
  Code code = Code::ok;
  std::thread waits([&] {
    BoardVector out{};
    code = one.take(out, 0, kBoardLongNs);
  });
  BoardVector out{};
  CHECK(two.take(out, 0, 0) == Code::timed_out);
  waits.join();
  CHECK(code == Code::disconnected);
}

TEST_CASE("however early ranks give up, a round ends well on all of them or on none") {
  constexpr std::uint32_t kRanks = 3;
  constexpr std::uint64_t kBoards = 150;
  std::uint64_t split = 0;
  std::uint64_t given_up = 0;
  std::uint64_t taken = 0;
  for (std::uint64_t number = 0; number < kBoards; ++number) {
    const BoardWatcher watcher = make_board(kRanks);
    std::array<std::uint64_t, kRanks> good{};
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank, board = join(watcher, rank, kRanks)]() mutable {
        BoardVector out{};
        Code code = Code::ok;
        for (std::uint64_t round = 1; round <= 200 && code == Code::ok; ++round) {
          board.tell(said(rank, round));
          const auto patience = static_cast<std::int64_t>(mix(number * 7919 + round * 31 + rank) %
                                                          200'000);
          code = board.take(out, patience / 2, patience);
          good[rank] += code == Code::ok && out == least(kRanks, round) ? 1U : 0U;
        }
      });
    }
    for (std::thread& rank : ranks) {
      rank.join();
    }
    split += good[0] == good[1] && good[1] == good[2] ? 0U : 1U;
    given_up += good[0] < 200 ? 1U : 0U;
    taken += good[0];
  }
  CHECK(split == 0);
  CHECK(given_up > 0);  // else nothing was tried
  CHECK(taken > 0);
}

TEST_CASE("words that say nothing are not written, and count as neutral on every rank") {
  constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::max();
  const BoardWatcher watcher = make_board(2);
  AgreementBoard one = join(watcher, 0, 2);
  AgreementBoard other = join(watcher, 1, 2);
  BoardVector full = said(0, 1);
  BoardVector sparse{};
  sparse.fill(kNothing);
  sparse[3] = -7;
  sparse[kBoardWords - 1] = 9;
  BoardVector out{};
  for (const std::uint64_t round : {1U, 2U, 3U}) {
    const BoardVector& mine = round == 3 ? sparse : full;  // the place of round 1 is used again
    BoardVector wanted = mine;
    wanted[3] = std::min(wanted[3], sparse[3]);
    wanted[kBoardWords - 1] = std::min(wanted[kBoardWords - 1], sparse[kBoardWords - 1]);
    one.tell(mine);
    other.tell(sparse);
    REQUIRE(one.take(out, 0, kBoardLongNs) == Code::ok);
    CHECK(out == wanted);
    REQUIRE(other.take(out, 0, kBoardLongNs) == Code::ok);
    CHECK(out == wanted);
  }
}

TEST_CASE("a member that dies or leaves ends the wait of the others at once") {
  const auto dies = GENERATE(true, false);
  CAPTURE(dies);
  BoardWatcher watcher = make_board(3);
  AgreementBoard one = join(watcher, 0, 3);
  AgreementBoard two = join(watcher, 1, 3);
  AgreementBoard three = join(watcher, 2, 3);
  one.tell(said(0, 1));
  two.tell(said(1, 1));
  Code code = Code::ok;
  std::thread waits([&] {
    BoardVector out{};
    code = one.take(out, 0, kBoardLongNs);
  });
  if (dies) {
    watcher.mark_dead(2);
  } else {
    three.leave();
  }
  waits.join();
  CHECK(code == Code::disconnected);
  BoardVector out{};
  CHECK(two.take(out, 0, kBoardLongNs) == Code::disconnected);
}

TEST_CASE("what a rank has told before its death counts, on all ranks") {
  BoardWatcher watcher = make_board(2);
  AgreementBoard one = join(watcher, 0, 2);
  AgreementBoard two = join(watcher, 1, 2);
  two.tell(said(1, 1));
  watcher.mark_dead(1);
  one.tell(said(0, 1));
  BoardVector out{};
  CHECK(one.take(out, 0, kBoardLongNs) == Code::ok);
  CHECK(out == least(2, 1));
  one.tell(said(0, 2));
  CHECK(one.take(out, 0, kBoardLongNs) == Code::disconnected);
}

TEST_CASE("a board of another shape, or a place that was used, is refused in one line") {
  const BoardWatcher watcher = make_board(2);
  const auto text = [&](std::uint32_t rank, std::uint32_t world, std::uint32_t words) {
    auto board = AgreementBoard::attach(board_fd(watcher.fd()), rank, world, words);
    return board ? std::string() : board.error().text;
  };
  CHECK(text(0, 2, 100) ==
        "agreement board: it is made for 2 ranks of 138 words, wanted 2 of 100");
  CHECK(text(0, 1, kBoardWords) ==
        "agreement board: it is made for 2 ranks of 138 words, wanted 1 of 138");
  AgreementBoard one = join(watcher, 0, 2);
  one.tell(said(0, 1));
  CHECK(text(0, 2, kBoardWords) == "agreement board: rank 0 has taken part already");
  CHECK_FALSE(BoardWatcher::create(65, 1).has_value());
  CHECK_FALSE(BoardWatcher::create(2, 257).has_value());
  const MemoryFile zeros = make_file(board_bytes(2, kBoardWords));
  CHECK_FALSE(AgreementBoard::attach(board_fd(zeros.fd()), 0, 2, kBoardWords).has_value());
}
