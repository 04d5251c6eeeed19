// SPDX-License-Identifier: Apache-2.0
// rank_group: forks, asks, and notices deaths.
#include "client/ctl/rank_group.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include "client/ctl/monotonic.h"

namespace hc {

namespace {

// Above every bound inside a rank, so that the rank's own explanation comes first.
constexpr std::uint64_t kReplyNs = 300 * kNsPerSecond;

const char* verb_name(RankVerb verb) {
  switch (verb) {
    case RankVerb::open: return "attach";
    case RankVerb::attached: return "attach again";
    case RankVerb::exists: return "exists_prefix";
    case RankVerb::load: return "load";
    case RankVerb::store: return "store";
    case RankVerb::probe: return "exists_prefix of single pages";
    case RankVerb::settle: return "flush";
    case RankVerb::close: return "close";
    case RankVerb::run: return "the trace";
    case RankVerb::forget: return "forget";
  }
  return "unknown";
}

std::string name_of(std::size_t rank) { return "rank " + std::to_string(rank); }

struct Pair {
  UniqueFd parent;
  UniqueFd child;
};

Result<std::vector<Pair>> make_pairs(std::size_t count) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
      return make_error(Code::io_error, "a socket pair for " + name_of(i), errno);
    }
    pairs.push_back({UniqueFd(fds[0]), UniqueFd(fds[1])});
  }
  return pairs;
}

// Runs in the child: keeps only its own end, so that the end of the bench is seen as such.
UniqueFd become_rank(std::size_t rank, std::vector<Pair>& pairs, pid_t bench) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != bench) {
    ::_exit(1);
  }
  UniqueFd mine = std::move(pairs[rank].child);
  pairs.clear();
  return mine;
}

}  // namespace

Result<RankGroup> RankGroup::start(const RankSetup& setup, RankMain rank_main) {
  const std::size_t count = setup.plan.ranks;
  auto pairs = make_pairs(count);
  HC_TRY(pairs);
  const pid_t bench = ::getpid();
  RankGroup group(std::vector<Rank>{});
  for (std::size_t rank = 0; rank < count; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) {
      return make_error(Code::io_error, "a process for " + name_of(rank), errno);
    }
    if (pid == 0) {
      // The group's own copies are ends of the bench too.
      for (Rank& other : group.ranks_) {
        other.fd.reset();
      }
      const UniqueFd mine = become_rank(rank, *pairs, bench);
      ::_exit(rank_main(setup, static_cast<std::uint32_t>(rank), mine.get()));
    }
    group.ranks_.push_back({pid, std::move((*pairs)[rank].parent)});
  }
  return group;
}

RankGroup::~RankGroup() {
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0) {
      ::kill(rank.pid, SIGKILL);
      while (::waitpid(rank.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
}

Result<void> RankGroup::tell(const RankCommand& command) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].pid < 0) {
      continue;
    }
    const ssize_t sent = ::send(ranks_[rank].fd.get(), &command, sizeof(command), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(sizeof(command))) {
      return death_of(rank);
    }
  }
  return {};
}

Result<std::vector<RankReply>> RankGroup::ask(const RankCommand& command) {
  HC_TRY_VOID(tell(command));
  const std::uint64_t deadline_ns = monotonic_ns() + kReplyNs;
  std::vector<RankReply> replies;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].pid < 0) {
      continue;
    }
    HC_TRY_VOID(await_reply(rank, deadline_ns));
    auto reply = take_reply(rank);
    HC_TRY(reply);
    replies.push_back(*reply);
  }
  return replies;
}

void RankGroup::bury(std::size_t rank) {
  HC_CHECK(ranks_[rank].pid < 0);  // take_reply has found it dead
  ranks_[rank].fd.reset();
}

Result<void> RankGroup::await_reply(std::size_t rank, std::uint64_t deadline_ns) {
  for (;;) {
    std::array<pollfd, 3> events{{{ranks_[rank].fd.get(), POLLIN, 0},
                                  {interrupt_fd_, POLLIN, 0},
                                  {daemon_fd_, POLLIN, 0}}};
    const std::uint64_t now_ns = monotonic_ns();
    if (now_ns >= deadline_ns) {
      return make_error(Code::timed_out, name_of(rank) + ": no reply for 300 s");
    }
    const int ready = ::poll(events.data(), events.size(),
                             static_cast<int>((deadline_ns - now_ns) / kNsPerMs + 1));
    if (ready < 0 && errno != EINTR) {
      return make_error(Code::io_error, "waiting for " + name_of(rank), errno);
    }
    if (events[1].revents != 0) {
      return make_error(Code::cancelled, "interrupted");
    }
    if (events[2].revents != 0) {
      return make_error(Code::disconnected, "the daemon ended by itself");
    }
    if (events[0].revents != 0) {
      return {};
    }
  }
}

Result<RankReply> RankGroup::take_reply(std::size_t rank) {
  RankReply reply;
  const ssize_t got = ::recv(ranks_[rank].fd.get(), &reply, sizeof(reply), 0);
  if (got != static_cast<ssize_t>(sizeof(reply))) {
    return death_of(rank);
  }
  reply.text.back() = '\0';
  if (reply.code != HICACHE_OK) {
    return make_error(static_cast<Code>(reply.code),
                      name_of(rank) + ": " + verb_name(reply.verb) + ": " +
                          hicache_code_name(reply.code) + ": " + reply.text.data());
  }
  return reply;
}

// The socket says that the rank is gone, so the wait is short.
Error RankGroup::death_of(std::size_t rank) {
  int status = 0;
  const pid_t pid = ::waitpid(ranks_[rank].pid, &status, 0);
  ranks_[rank].pid = -1;
  std::string how = "ended";
  if (pid > 0 && WIFSIGNALED(status)) {
    how = "was killed by signal " + std::to_string(WTERMSIG(status));
  } else if (pid > 0 && WIFEXITED(status)) {
    how = "ended with status " + std::to_string(WEXITSTATUS(status));
  }
  return make_error(Code::io_error, name_of(rank) + ": its process " + how);
}

Result<void> RankGroup::close() {
  RankCommand command;
  command.verb = RankVerb::close;
  auto replies = ask(command);
  HC_TRY(replies);
  for (Rank& rank : ranks_) {
    if (rank.pid < 0) {
      continue;
    }
    while (::waitpid(rank.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    rank.pid = -1;
  }
  return {};
}

}  // namespace hc
