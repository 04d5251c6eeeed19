// SPDX-License-Identifier: Apache-2.0
// rank_group_test: ranks answer, and failures of ranks and of the daemon are told apart.
#include "client/ctl/rank_group.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "client/ctl/rank_process.h"
#include "support/catch.h"

namespace hc {

namespace {

// A bench of one request and no daemon: what a rank does with a client must fail cleanly.
class Setting {
 public:
  Setting() : boards_(*RankBoards::make(2, 2)) {
    BenchOptions options;
    options.l2 = "10blocks";
    options.l3 = "10blocks";
    plan_ = *make_plan(options);
    trace_.add({}, std::vector<std::uint64_t>{1, 2});
    keys_ = make_page_keys(trace_);
  }
  RankSetup setup() const {
    return {plan_, trace_, keys_, boards_, "/nonexistent/hicached.sock", "bench-test"};
  }

 private:
  BenchPlan plan_;
  Trace trace_;
  std::vector<PageHash> keys_;
  RankBoards boards_;
};

RankCommand command_of(RankVerb verb) {
  RankCommand command;
  command.verb = verb;
  return command;
}

}  // namespace

TEST_CASE("every rank answers a command, and the group ends in order", "[ctl]") {
  const Setting setting;
  const RankSetup setup = setting.setup();
  auto group = RankGroup::start(setup, serve_rank);
  REQUIRE(group);

  const auto replies = group->ask(command_of(RankVerb::settle));

  REQUIRE(replies);
  CHECK(replies->size() == 2);
  CHECK(group->close());
}

TEST_CASE("a rank that can't go on says so with its number, the step and the code", "[ctl]") {
  const Setting setting;
  const RankSetup setup = setting.setup();
  auto group = RankGroup::start(setup, serve_rank);
  REQUIRE(group);

  const auto replies = group->ask(command_of(RankVerb::exists));

  REQUIRE_FALSE(replies);
  CHECK(replies.error().message().find("rank 0: exists_prefix: ") == 0);
}

TEST_CASE("waiting for ranks ends when the person interrupts or the daemon ends", "[ctl]") {
  const Setting setting;
  const RankSetup setup = setting.setup();
  auto group = RankGroup::start(setup, serve_rank);
  REQUIRE(group);
  std::array<int, 2> fds{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
  ::close(fds[1]);

  SECTION("interrupt") {
    group->watch_interrupt(fds[0]);
    const auto replies = group->ask(command_of(RankVerb::settle));
    REQUIRE_FALSE(replies);
    CHECK(replies.error().code == Code::cancelled);
  }
  SECTION("daemon") {
    group->watch_daemon(fds[0]);
    const auto replies = group->ask(command_of(RankVerb::settle));
    REQUIRE_FALSE(replies);
    CHECK(replies.error().code == Code::disconnected);
  }
  ::close(fds[0]);
}

TEST_CASE("a rank that dies is one line with its number and its end", "[ctl]") {
  struct Case {
    RankGroup::RankMain rank_main;
    const char* says;
  };
  const Case at = GENERATE(
      Case{[](const RankSetup& setup, std::uint32_t rank, int fd) {
             return rank == 0 ? 3 : serve_rank(setup, rank, fd);
           },
           "ended with status 3"},
      Case{[](const RankSetup& setup, std::uint32_t rank, int fd) {
             if (rank == 0) {
               ::kill(::getpid(), SIGKILL);
             }
             return serve_rank(setup, rank, fd);
           },
           "was killed by signal 9"});
  const Setting setting;
  const RankSetup setup = setting.setup();
  auto group = RankGroup::start(setup, at.rank_main);
  REQUIRE(group);

  const auto replies = group->ask(command_of(RankVerb::settle));

  REQUIRE_FALSE(replies);
  CHECK(replies.error().message() == std::string("rank 0: its process ") + at.says);
}

TEST_CASE("a rank ends when the bench is gone", "[ctl]") {
  const Setting setting;
  const RankSetup setup = setting.setup();
  std::array<int, 2> fds{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) == 0);
  ::close(fds[0]);

  CHECK(serve_rank(setup, 0, fds[1]) == 1);

  ::close(fds[1]);
}

}  // namespace hc
