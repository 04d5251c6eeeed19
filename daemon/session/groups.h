// SPDX-License-Identifier: Apache-2.0
// groups: what the ranks of one engine have through the daemon beside pages: the board on which
// they agree, and values that one of them posts for the others.
//
// Owner: the reactor thread.
// Invariants:
//   - a board of which a member is dead, or that is not the newest of its group, is given to
//     nobody; when a newer one is made all its members are marked dead, so that no rank waits there
//   - a member's process is watched from the time it has its place until it has ended, or another
//     process has taken the place of that rank
// A group lives while a session or a watched process of it does.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/os/epoll.h"
#include "proto/handshake.h"
#include "shm/agreement_board.h"
#include "shm/unique_fd.h"

namespace hc {

struct GroupMember {
  std::string group;
  std::uint16_t rank = 0;
  std::uint16_t world = 0;
};

class Groups {
 public:
  // `epoll_owner`: the upper byte of the tags under which processes are watched.
  Groups(Epoll& epoll, std::uint64_t epoll_owner, std::uint32_t members_max);

  void session_opened(const std::string& group);
  void session_closed(const std::string& group);

  struct BoardPlace {
    int fd = -1;  // of the daemon
    BoardReply board{};
  };
  // The board of the group on which this rank has not been yet; a new one where the last has a
  // dead member, this rank on it already, or another size. Errors: bad_argument, busy, no_space,
  // io_error.
  Result<BoardPlace> join_board(const GroupMember& member, int pidfd, std::uint32_t words);
  // A board that an earlier daemon has given to this rank. Errors: refused; then nobody waits on it
  // any more.
  Result<void> watch_board(const GroupMember& member, int pidfd, const BoardReply& board,
                           UniqueFd&& fd);
  // The rank takes part no more.
  void leave(const GroupMember& member);
  // A watched process has ended.
  void on_pidfd(std::uint32_t watch);
  // The process of a session has ended. It may have had no time to hand its board over.
  void process_ended(const GroupMember& member);

  // Of more than kBlackboardKeysMax values the one of the lowest key goes: what keys stand for
  // rises. Errors: bad_argument.
  Result<void> post(const std::string& group, std::uint32_t key,
                    std::span<const std::uint8_t> value);
  // Null: nobody has posted.
  const std::vector<std::uint8_t>* find(const std::string& group, std::uint32_t key) const;

  // The number of the board on which this rank has a place; 0: none.
  std::uint64_t board_of(const GroupMember& member) const;
  std::size_t group_count() const { return groups_.size(); }

 private:
  struct Board {
    BoardWatcher watcher;
    std::uint64_t number = 0;
    std::uint32_t world = 0;
    std::uint32_t words = 0;
    std::bitset<kBoardWorldMax> taken;
    bool broken = false;
  };
  struct Group {
    std::uint32_t sessions = 0;
    std::uint32_t watches = 0;
    std::uint64_t boards = 0;  // the highest number that was given
    std::optional<Board> board;
    std::bitset<kBoardWorldMax> ended;  // ranks that ended before their board was known here
    std::map<std::uint32_t, std::vector<std::uint8_t>> values;
  };
  struct Watch {
    std::string group;
    std::uint16_t rank = 0;
    std::uint64_t board = 0;
    UniqueFd pidfd;
  };

  Result<void> make_place(const GroupMember& member);
  Result<void> watch(const GroupMember& member, int pidfd, std::uint64_t board);
  void drop_watch(std::uint32_t index);
  static void retire(Board& board);
  void mark_dead(Group& group, std::uint16_t rank, std::uint64_t board);
  void drop_if_empty(const std::string& name);

  Epoll& epoll_;
  std::uint64_t epoll_owner_;
  std::map<std::string, Group> groups_;
  std::vector<std::optional<Watch>> watches_;
};

}  // namespace hc
