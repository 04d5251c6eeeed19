// SPDX-License-Identifier: Apache-2.0
// groups_test: who gets which board, what the end of a process means there, and posted values.
#include "daemon/session/groups.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "daemon/os/pidfd.h"
#include "support/catch.h"

namespace {

using namespace hc;

constexpr std::uint32_t kWords = 16;
constexpr std::uint64_t kOwner = std::uint64_t{9} << 56;
constexpr std::int64_t kLongNs = 60'000'000'000;

// A process that does nothing until it is killed.
class IdleProcess {
 public:
  IdleProcess() : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      while (true) {
        ::pause();
      }
    }
    auto fd = open_pidfd(pid_);
    REQUIRE(fd);
    pidfd_ = std::move(*fd);
  }
  ~IdleProcess() { kill(); }
  IdleProcess(const IdleProcess&) = delete;
  IdleProcess& operator=(const IdleProcess&) = delete;

  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  int pidfd() const { return pidfd_.get(); }

 private:
  pid_t pid_;
  UniqueFd pidfd_;
};

struct GroupsBench {
  Epoll epoll = *Epoll::create();
  Groups groups{epoll, kOwner, 4};
  std::array<IdleProcess, 3> ranks;

  GroupsBench() {
    groups.session_opened("g");
    groups.session_opened("g");
  }
  GroupMember member(std::uint16_t rank) const { return {"g", rank, 2}; }
  Groups::BoardPlace place(std::uint16_t rank, std::size_t process) {
    auto got = groups.join_board(member(rank), ranks[process].pidfd(), kWords);
    REQUIRE(got);
    return *got;
  }
  // As the client library does with the descriptor that it gets.
  AgreementBoard attach(const Groups::BoardPlace& place, std::uint16_t rank) {
    auto board = AgreementBoard::attach(UniqueFd(::dup(place.fd)), rank, 2, kWords);
    REQUIRE(board);
    return std::move(*board);
  }
  // Hands on what epoll says; how many processes it spoke of.
  std::size_t deliver(int timeout_ms) {
    const auto ready = epoll.wait(timeout_ms);
    for (const epoll_event& event : ready) {
      REQUIRE(event.data.u64 >> 56 == kOwner >> 56);
      groups.on_pidfd(static_cast<std::uint32_t>(event.data.u64));
    }
    return ready.size();
  }
};

Code take(AgreementBoard& board, std::int64_t timeout_ns = kLongNs) {
  std::array<std::int64_t, kWords> words{};
  board.tell(words);
  return board.take(words, 0, timeout_ns);
}

TEST_CASE("groups: the ranks of a group get one board, whoever comes first") {
  GroupsBench bench;

  const auto first = bench.place(1, 1);
  const auto second = bench.place(0, 0);

  CHECK(first.board.number == 1U);
  CHECK(second.board.number == 1U);
  CHECK(first.fd == second.fd);
  auto mine = bench.attach(first, 1);
  auto other = bench.attach(second, 0);
  other.tell(std::array<std::int64_t, kWords>{});
  CHECK(take(mine) == Code::ok);
}

TEST_CASE("groups: a rank that asks again gets a new board, and the old one keeps nobody") {
  GroupsBench bench;
  auto left_behind = bench.attach(bench.place(0, 0), 0);
  bench.place(1, 1);

  const auto again = bench.place(1, 1);

  CHECK(again.board.number == 2U);
  CHECK(take(left_behind) == Code::disconnected);
  CHECK(bench.place(0, 0).board.number == 2U);
}

TEST_CASE("groups: a killed member ends the wait of the others, and its board is given to nobody") {
  GroupsBench bench;
  auto waiting = bench.attach(bench.place(0, 0), 0);
  bench.place(1, 1);

  bench.ranks[1].kill();
  REQUIRE(bench.deliver(60'000) == 1);

  CHECK(take(waiting) == Code::disconnected);
  CHECK(bench.place(1, 2).board.number == 2U);
}

TEST_CASE("groups: a process that lost its rank to another may end without a word") {
  GroupsBench bench;
  bench.place(1, 1);
  auto waiting = bench.attach(bench.place(0, 0), 0);
  const auto successor = bench.place(1, 2);
  CHECK(take(waiting) == Code::disconnected);
  auto renewed = bench.attach(bench.place(0, 0), 0);
  auto other = bench.attach(successor, 1);

  bench.ranks[1].kill();
  CHECK(bench.deliver(0) == 0);

  other.tell(std::array<std::int64_t, kWords>{});
  CHECK(take(renewed) == Code::ok);
}

TEST_CASE("groups: a board of an earlier daemon is watched on, and not given anew") {
  GroupsBench earlier;
  const auto place = earlier.place(0, 0);
  auto waiting = earlier.attach(place, 0);
  earlier.place(1, 1);
  GroupsBench later;

  REQUIRE(later.groups.watch_board(later.member(0), earlier.ranks[0].pidfd(), place.board,
                                   UniqueFd(::dup(place.fd))));
  REQUIRE(later.groups.watch_board(later.member(1), earlier.ranks[1].pidfd(), place.board,
                                   UniqueFd(::dup(place.fd))));
  earlier.ranks[1].kill();
  REQUIRE(later.deliver(60'000) == 1);

  CHECK(take(waiting) == Code::disconnected);
  CHECK(later.place(1, 2).board.number == 2U);
}

TEST_CASE("groups: a member that ended before it could hand its board over is told of") {
  const bool first_known = GENERATE(true, false);
  CAPTURE(first_known);
  GroupsBench earlier;
  const auto place = earlier.place(0, 0);
  auto waiting = earlier.attach(place, 0);
  earlier.place(1, 1);
  GroupsBench later;
  const auto hand_over = [&] {
    return later.groups.watch_board(later.member(0), earlier.ranks[0].pidfd(), place.board,
                                    UniqueFd(::dup(place.fd)));
  };

  if (first_known) {
    REQUIRE(hand_over());
    later.groups.process_ended(later.member(1));
  } else {
    later.groups.process_ended(later.member(1));
    REQUIRE(hand_over());
  }

  CHECK(take(waiting) == Code::disconnected);
}

TEST_CASE("groups: the end of a session's process says nothing of a member that lives") {
  GroupsBench bench;
  auto waiting = bench.attach(bench.place(0, 0), 0);
  auto other = bench.attach(bench.place(1, 1), 1);

  bench.groups.process_ended(bench.member(1));  // an older process of that rank

  other.tell(std::array<std::int64_t, kWords>{});
  CHECK(take(waiting) == Code::ok);
}

TEST_CASE("groups: an old board that comes back late keeps nobody waiting") {
  GroupsBench earlier;
  const auto place = earlier.place(0, 0);
  auto waiting = earlier.attach(place, 0);
  GroupsBench later;
  later.place(1, 1);

  const auto watched = later.groups.watch_board(later.member(0), earlier.ranks[0].pidfd(),
                                                place.board, UniqueFd(::dup(place.fd)));

  REQUIRE_FALSE(watched);
  CHECK(watched.error().code == Code::refused);
  CHECK(take(waiting) == Code::disconnected);
}

TEST_CASE("groups: what is no board, or of another size, is refused in one line") {
  GroupsBench bench;
  const auto place = bench.place(0, 0);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd pipe_end(ends[0]);
  const UniqueFd other_end(ends[1]);
  const auto watch = [&](BoardReply board, int fd) {
    return bench.groups.watch_board(bench.member(0), bench.ranks[0].pidfd(), board,
                                    UniqueFd(::dup(fd)));
  };
  BoardReply board = place.board;
  board.number = 7;

  CHECK_FALSE(watch(board, pipe_end.get()));
  board.words = kWords + 1;
  CHECK_FALSE(watch(board, place.fd));
  board = {0, 2, kWords};
  CHECK(watch(board, place.fd).error().code == Code::bad_argument);
  board = {7, 3, kWords};
  CHECK(watch(board, place.fd).error().code == Code::bad_argument);
  const auto wide = bench.groups.join_board({"g", 0, 65}, bench.ranks[0].pidfd(), kWords);
  REQUIRE_FALSE(wide);
  CHECK(wide.error().code == Code::bad_argument);
}

TEST_CASE("groups: a rank that leaves is no member any more, and its end says nothing") {
  GroupsBench bench;
  auto waiting = bench.attach(bench.place(0, 0), 0);
  bench.place(1, 1);

  bench.groups.leave(bench.member(1));
  CHECK(take(waiting) == Code::disconnected);
  bench.ranks[1].kill();

  CHECK(bench.deliver(0) == 0);
}

TEST_CASE("groups: a group is forgotten with its last session and its last process") {
  GroupsBench bench;
  bench.place(0, 0);
  REQUIRE(bench.groups.post("g", 1, std::array<std::uint8_t, 1>{7}));
  bench.groups.session_closed("g");
  bench.groups.session_closed("g");
  CHECK(bench.groups.group_count() == 1);

  bench.ranks[0].kill();
  REQUIRE(bench.deliver(60'000) == 1);

  CHECK(bench.groups.group_count() == 0);
}

TEST_CASE("groups: places are bounded, and one that comes free is given") {
  GroupsBench bench;
  bench.groups.session_opened("h");
  for (std::uint16_t rank = 0; rank < 4; ++rank) {
    REQUIRE(bench.groups.join_board({"h", rank, 4}, bench.ranks[0].pidfd(), kWords));
  }
  const auto full = bench.groups.join_board(bench.member(0), bench.ranks[1].pidfd(), kWords);
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Code::busy);

  bench.groups.leave({"h", 3, 4});

  CHECK(bench.groups.join_board(bench.member(0), bench.ranks[1].pidfd(), kWords));
}

TEST_CASE("groups: places without any session give way to ranks that have one") {
  GroupsBench bench;
  bench.groups.session_opened("h");
  for (std::uint16_t rank = 0; rank < 4; ++rank) {
    REQUIRE(bench.groups.join_board({"h", rank, 4}, bench.ranks[0].pidfd(), kWords));
  }
  bench.groups.session_closed("h");

  CHECK(bench.groups.join_board(bench.member(0), bench.ranks[1].pidfd(), kWords));
}

TEST_CASE("groups: the end of a rank that the board does not have is no harm to it") {
  GroupsBench bench;
  auto waiting = bench.attach(bench.place(0, 0), 0);
  auto other = bench.attach(bench.place(1, 1), 1);

  bench.groups.process_ended({"g", 50, 64});  // of another engine under the same name

  other.tell(std::array<std::int64_t, kWords>{});
  CHECK(take(waiting) == Code::ok);
}

TEST_CASE("groups: a posted value is there for every rank, the last one under its key counts") {
  GroupsBench bench;
  const std::vector<std::uint8_t> first{1, 2, 3};
  const std::vector<std::uint8_t> second{4};
  CHECK(bench.groups.find("g", 5) == nullptr);

  REQUIRE(bench.groups.post("g", 5, first));
  CHECK(*bench.groups.find("g", 5) == first);
  REQUIRE(bench.groups.post("g", 5, second));

  CHECK(*bench.groups.find("g", 5) == second);
  CHECK_FALSE(bench.groups.post("g", 6, {}));
  CHECK_FALSE(bench.groups.post("g", 6, std::vector<std::uint8_t>(kBlackboardBytesMax + 1)));
}

TEST_CASE("groups: of too many values the one of the lowest key goes") {
  GroupsBench bench;
  const std::vector<std::uint8_t> value{1};
  for (std::uint32_t key = 1; key <= kBlackboardKeysMax; ++key) {
    REQUIRE(bench.groups.post("g", key, value));
  }

  REQUIRE(bench.groups.post("g", kBlackboardKeysMax + 1, value));

  CHECK(bench.groups.find("g", 1) == nullptr);
  CHECK(bench.groups.find("g", 2) != nullptr);
  CHECK(bench.groups.find("g", kBlackboardKeysMax + 1) != nullptr);
}

}  // namespace
