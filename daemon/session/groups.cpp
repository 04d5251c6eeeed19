// SPDX-License-Identifier: Apache-2.0
// groups: boards, the processes behind their places, and posted values.
#include "daemon/session/groups.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/os/pidfd.h"
#include "proto/check.h"

namespace hc {

namespace {

// Numbers rise by one: a higher one was made up, and would leave no room above it.
constexpr std::uint64_t kBoardNumberMax = std::uint64_t{1} << 62;

bool is_same_file(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

Groups::Groups(Epoll& epoll, std::uint64_t epoll_owner, std::uint32_t members_max)
    : epoll_(epoll), epoll_owner_(epoll_owner), watches_(members_max) {}

void Groups::session_opened(const std::string& group) { ++groups_[group].sessions; }

void Groups::session_closed(const std::string& group) {
  Group& at = groups_.at(group);
  HC_CHECK(at.sessions > 0);
  --at.sessions;
  drop_if_empty(group);
}

void Groups::drop_if_empty(const std::string& name) {
  const auto found = groups_.find(name);
  HC_CHECK(found != groups_.end());
  if (found->second.sessions == 0 && found->second.watches == 0) {
    groups_.erase(found);
  }
}

// Whoever waits there learns at once that nothing comes of it.
void Groups::retire(Board& board) {
  board.broken = true;
  for (std::uint32_t rank = 0; rank < board.world; ++rank) {
    board.watcher.mark_dead(rank);
  }
}

Result<Groups::BoardPlace> Groups::join_board(const GroupMember& member, int pidfd,
                                              std::uint32_t words) {
  Group& group = groups_.at(member.group);
  const bool usable = group.board && !group.board->broken && group.board->world == member.world &&
                      group.board->words == words && !group.board->taken.test(member.rank);
  HC_TRY_VOID(make_place(member));
  if (!usable) {
    auto watcher = BoardWatcher::create(member.world, words);
    HC_TRY(watcher);
    if (group.board) {
      retire(*group.board);
    }
    group.board.emplace(Board{std::move(*watcher), ++group.boards, member.world, words, {}, false});
  }
  Board& board = *group.board;
  HC_TRY_VOID(watch(member, pidfd, board.number));
  board.taken.set(member.rank);
  group.ended.reset(member.rank);
  return BoardPlace{board.watcher.fd(), BoardReply{board.number, board.world, board.words}};
}

// Every rank had its place there before the earlier daemon ended: none is given anew.
Result<void> Groups::watch_board(const GroupMember& member, int pidfd, const BoardReply& given,
                                 UniqueFd&& fd) {
  if (given.world != member.world) {
    return make_error(Code::bad_argument, "world = " + std::to_string(given.world) +
                                              ": must be that of the group, " +
                                              std::to_string(member.world));
  }
  if (given.number == 0 || given.number > kBoardNumberMax) {
    return make_error(Code::bad_argument, "number = " + std::to_string(given.number) +
                                              ": must be that of a board which was given");
  }
  auto watcher = BoardWatcher::adopt(std::move(fd), given.world, given.words);
  HC_TRY(watcher);
  HC_TRY_VOID(make_place(member));
  Group& group = groups_.at(member.group);
  const bool known = group.board && !group.board->broken && group.board->number == given.number &&
                     group.board->world == given.world && group.board->words == given.words &&
                     is_same_file(group.board->watcher.fd(), watcher->fd());
  if (!known && given.number <= group.boards) {
    Board over{std::move(*watcher), given.number, given.world, given.words, {}, true};
    retire(over);
    return make_error(Code::refused, "board " + std::to_string(given.number) +
                                         " of the group is over: a newer one has been given");
  }
  if (!known) {
    if (group.board) {
      retire(*group.board);
    }
    group.boards = given.number;
    group.board.emplace(
        Board{std::move(*watcher), given.number, given.world, given.words, {}, false});
    group.board->taken.set();
  }
  HC_TRY_VOID(watch(member, pidfd, given.number));
  for (std::uint16_t rank = 0; rank < given.world; ++rank) {
    if (rank != member.rank && group.ended.test(rank)) {
      mark_dead(group, rank, given.number);
    }
  }
  return {};
}

std::uint64_t Groups::board_of(const GroupMember& member) const {
  const auto found =
      std::find_if(watches_.begin(), watches_.end(), [&](const std::optional<Watch>& at) {
        return at && at->group == member.group && at->rank == member.rank;
      });
  return found == watches_.end() ? 0 : (*found)->board;
}

// One that is watched is told of by its watch.
void Groups::process_ended(const GroupMember& member) {
  if (member.rank >= kBoardWorldMax || board_of(member) != 0) {
    return;
  }
  Group& group = groups_.at(member.group);
  group.ended.set(member.rank);
  if (group.board) {
    mark_dead(group, member.rank, group.board->number);
  }
}

// A process may leave places behind without any session; they give way to ranks that have one.
Result<void> Groups::make_place(const GroupMember& member) {
  if (board_of(member) != 0) {
    return {};  // its own place is free for it
  }
  std::uint32_t idle = kNone32;
  for (std::uint32_t i = 0; i < watches_.size(); ++i) {
    if (!watches_[i]) {
      return {};
    }
    idle = groups_.at(watches_[i]->group).sessions == 0 ? i : idle;
  }
  if (idle == kNone32) {
    return make_error(Code::busy, std::to_string(watches_.size()) +
                                      " ranks have a place on a board already");
  }
  const std::string group = watches_[idle]->group;
  mark_dead(groups_.at(group), watches_[idle]->rank, watches_[idle]->board);
  drop_watch(idle);
  drop_if_empty(group);
  return {};
}

// There is a place for it.
Result<void> Groups::watch(const GroupMember& member, int pidfd, std::uint64_t board) {
  std::uint32_t free = kNone32;
  for (std::uint32_t i = 0; i < watches_.size(); ++i) {
    if (watches_[i] && watches_[i]->group == member.group && watches_[i]->rank == member.rank) {
      drop_watch(i);
    }
    free = free == kNone32 && !watches_[i] ? i : free;
  }
  HC_CHECK(free != kNone32);
  UniqueFd copy(::fcntl(pidfd, F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    return make_error(Code::io_error, "duplicate a pidfd", errno);
  }
  HC_TRY_VOID(epoll_.add(copy.get(), Trigger::level, epoll_owner_ | free));
  watches_[free] = Watch{member.group, member.rank, board, std::move(copy)};
  ++groups_.at(member.group).watches;
  return {};
}

// The group stays, also without any: its caller looks.
void Groups::drop_watch(std::uint32_t index) {
  Watch& watch = *watches_[index];
  epoll_.remove(watch.pidfd.get());
  Group& group = groups_.at(watch.group);
  HC_CHECK(group.watches > 0);
  --group.watches;
  watches_[index].reset();
}

// A rank beyond the board's world is of another engine under the same name.
void Groups::mark_dead(Group& group, std::uint16_t rank, std::uint64_t board) {
  if (group.board && group.board->number == board && rank < group.board->world) {
    group.board->broken = true;
    group.board->watcher.mark_dead(rank);
  }
}

void Groups::leave(const GroupMember& member) {
  for (std::uint32_t i = 0; i < watches_.size(); ++i) {
    if (watches_[i] && watches_[i]->group == member.group && watches_[i]->rank == member.rank) {
      mark_dead(groups_.at(member.group), member.rank, watches_[i]->board);
      drop_watch(i);
    }
  }
}

void Groups::on_pidfd(std::uint32_t index) {
  if (index >= watches_.size() || !watches_[index] ||
      !pidfd_is_dead(watches_[index]->pidfd.get())) {
    return;
  }
  const std::string group = watches_[index]->group;
  mark_dead(groups_.at(group), watches_[index]->rank, watches_[index]->board);
  drop_watch(index);
  drop_if_empty(group);
}

Result<void> Groups::post(const std::string& group, std::uint32_t key,
                          std::span<const std::uint8_t> value) {
  if (value.empty() || value.size() > kBlackboardBytesMax) {
    return make_error(Code::bad_argument, "value_bytes = " + std::to_string(value.size()) +
                                              ": must be 1.." +
                                              std::to_string(kBlackboardBytesMax));
  }
  auto& values = groups_.at(group).values;
  if (values.size() >= kBlackboardKeysMax && values.count(key) == 0) {
    values.erase(values.begin());
  }
  values[key].assign(value.begin(), value.end());
  return {};
}

const std::vector<std::uint8_t>* Groups::find(const std::string& group, std::uint32_t key) const {
  const auto& values = groups_.at(group).values;
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

}  // namespace hc
