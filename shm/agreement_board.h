// SPDX-License-Identifier: Apache-2.0
// agreement_board: the ranks of a group on one node reduce a vector to its minimum in a memory file
// that they share; a member that has died or left ends the wait of the others.
//
// Owner thread: one per rank; the daemon's side (BoardWatcher) has its own.
// Invariants: a member is written by its rank alone; a vector is complete before its round is told;
// what stands in `doubt` and in the verdict only rises.
//
// Why a vector is never overwritten while somebody reads it: a rank writes round r + 2 into the
// place of round r only after it has seen every member at round r + 1, and each of them told
// r + 1 only after it had read all of round r.
//
// Why no wake is lost: a teller (1) stores its round, full fence, (2) looks who sleeps; if anybody
// does it (3) raises the bell and wakes. A sleeper (a) says that it sleeps, full fence, (b) reads
// the bell, (c) looks at the rounds again, (d) sleeps while the bell is what it read. If (2) missed
// the sleeper then (a) came after it, and (c) sees the round. If not, and (c) missed the round,
// then (b) came before (3): (d) does not sleep, or (3) wakes it. So while all spin the bell's line
// stays where it is.
//
// Why all ranks agree how a round ended. Who would give a round up, because a member has gone or
// its time is up, (1) says so in `doubt`, full fence, (2) looks at the members once more. Who has
// seen every member's vector (A) looks at `doubt` after that, and takes the round if nobody doubts
// it: no line moves for that. A doubted round has a verdict, one word that is written once by
// whoever is first (compare and swap): complete, by one who has seen every vector, be it in (2);
// failed, by one who in (2) has not. Who comes second takes what stands there, also the vectors of
// a round that it would have given up: a round that is complete was told by all. No round is
// failed that somebody took at (A): that one had seen all vectors before (A), (A) came before (1),
// so (2) sees them too. (On processors where a store becomes seen by all others at once.) A
// failed round is the last one: everybody who looks sees it.
#pragma once

#include <cstdint>
#include <span>

#include "proto/agreement_board_layout.h"
#include "proto/result.h"
#include "shm/memory_file.h"
#include "shm/region.h"
#include "shm/unique_fd.h"

namespace hc {

// Daemon: makes the file and says who is dead. It reads nothing of it.
class [[nodiscard]] BoardWatcher {
 public:
  // world 1..64, words 1..256. Errors: bad_argument, no_space, io_error.
  static Result<BoardWatcher> create(std::uint32_t world, std::uint32_t words);
  // A board that an earlier daemon has made, from one of its members. Errors: refused.
  // A file that is refused is left alone.
  static Result<BoardWatcher> adopt(UniqueFd&& fd, std::uint32_t world, std::uint32_t words);

  int fd() const { return file_.fd(); }
  void mark_dead(std::uint32_t rank);

 private:
  BoardWatcher(MemoryFile file, Region region, std::uint32_t words)
      : file_(std::move(file)), region_(std::move(region)), words_(words) {}

  MemoryFile file_;
  Region region_;
  std::uint32_t words_;
};

class [[nodiscard]] AgreementBoard {
 public:
  // Judges the file that the daemon gave. Errors: refused, with one line that says why.
  static Result<AgreementBoard> attach(UniqueFd fd, std::uint32_t rank, std::uint32_t world,
                                       std::uint32_t words);

  // Tells this rank's vector of the next round. `words` as many as the board has.
  void tell(std::span<const std::int64_t> words);
  // Waits until every member has told this round, and puts the minimum into `out`. Spins at most
  // spin_ns, then sleeps; at most timeout_ns in all.
  // ok, on all ranks or on none; disconnected: a member is dead, has left or has given up;
  // timed_out, io_error: this rank has given up. After anything but ok the board is of no use any
  // more.
  [[nodiscard]] Code take(std::span<std::int64_t> out, std::int64_t spin_ns,
                          std::int64_t timeout_ns);
  // This rank takes part no more: those who wait for it are told at once.
  void leave();
  // Whether any member is dead or has left.
  bool has_gone() const;

 private:
  enum class Members : std::uint8_t { waiting, complete, gone };

  AgreementBoard(Region region, std::uint32_t rank, std::uint32_t world, std::uint32_t words);
  BoardMember& member(std::uint32_t rank);
  const BoardMember& member(std::uint32_t rank) const;
  std::int64_t* vector(std::uint32_t rank);
  Members look();
  Members doubt();
  Code await(std::int64_t spin_ns, std::int64_t timeout_ns);
  bool decide(bool failed);
  void reduce(std::span<std::int64_t> out);
  void ring();
  Code sleep(std::int64_t timeout_ns);

  Region region_;
  BoardHeader* header_;
  std::uint32_t rank_;
  std::uint32_t world_;
  std::uint32_t words_;
  std::uint64_t round_ = 0;
};

}  // namespace hc
