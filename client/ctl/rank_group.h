// SPDX-License-Identifier: Apache-2.0
// rank_group: the rank processes as the bench sees them: one command to all, all replies back.
//
// Owner thread: the bench's only thread. Invariants: between two calls every rank waits for a
// command, so the boards may be read; ranks end when the group does, however it ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "client/ctl/rank_engine.h"
#include "client/ctl/rank_protocol.h"
#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

class RankGroup {
 public:
  // What a rank process does with its end of the socket; returns its exit status.
  using RankMain = int (*)(const RankSetup& setup, std::uint32_t rank, int fd);
  // Forks one process a rank. The caller has no threads. `setup` outlives the group.
  static Result<RankGroup> start(const RankSetup& setup, RankMain rank_main);
  RankGroup(RankGroup&&) noexcept = default;
  RankGroup& operator=(RankGroup&&) = delete;
  ~RankGroup();

  // Waiting also ends when one of these turns readable; -1 for none.
  void watch_interrupt(int fd) { interrupt_fd_ = fd; }
  void watch_daemon(int fd) { daemon_fd_ = fd; }

  // Sends the command to every rank that is not buried, and waits for every reply. A rank that
  // dies, or that answers with a code, is an error of one line.
  Result<std::vector<RankReply>> ask(const RankCommand& command);
  // The two halves of ask, for a command that takes as long as it takes.
  Result<void> tell(const RankCommand& command);
  Result<RankReply> take_reply(std::size_t rank);
  // Readable when the rank has replied or ended; -1 once it is buried.
  int fd_of(std::size_t rank) const { return ranks_[rank].fd.get(); }
  // Whose death take_reply has found, and was meant to: from now on the group is the others.
  void bury(std::size_t rank);
  // Ends the ranks in order. The destructor kills what is left.
  Result<void> close();

 private:
  struct Rank {
    pid_t pid = -1;
    UniqueFd fd;
  };
  explicit RankGroup(std::vector<Rank> ranks) : ranks_(std::move(ranks)) {}
  Result<void> await_reply(std::size_t rank, std::uint64_t deadline_ns);
  Error death_of(std::size_t rank);

  std::vector<Rank> ranks_;
  int interrupt_fd_ = -1;
  int daemon_fd_ = -1;
};

}  // namespace hc
