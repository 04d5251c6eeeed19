// SPDX-License-Identifier: Apache-2.0
// engine_bus: what an engine's front end tells the ranks before each tick, and the collective that
// the engine has of its own.
//
// The memory is made before the ranks are forked. Rank 0 publishes ticks, every rank takes them in
// order; the bench says who has died. Owner thread: each process's only one (tests: threads).
// Invariants: a slot of the ring is written only after every rank that lives has taken what was in
// it; every wait is bounded and ends when the rank that is waited for dies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "proto/limits.h"
#include "proto/result.h"
#include "shm/agreement_board.h"

namespace hc {

// Equal on all ranks, and all that the world outside tells them.
struct TickInput {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t first_arrival = 0;  // requests come in the order of the trace
  std::uint32_t arrivals = 0;
  std::uint32_t stop = 0;           // 1: the last one; nothing else is in it
  std::uint64_t aborted = kNone;    // a request that leaves
};

class EngineBus {
 public:
  static Result<EngineBus> make(std::uint32_t ranks);
  EngineBus(EngineBus&& other) noexcept
      : shared_(std::exchange(other.shared_, nullptr)),
        ranks_(other.ranks_),
        boards_(std::move(other.boards_)) {}
  EngineBus& operator=(EngineBus&&) = delete;
  ~EngineBus();

  // Rank 0. Waits while a rank that lives is a whole ring behind; takes it for itself too.
  [[nodiscard]] Code publish(const TickInput& input);
  // Any other rank: the tick after the last one it took. disconnected: rank 0 has died.
  [[nodiscard]] Code take(std::uint32_t rank, TickInput& out);
  // Returns when something has happened on the bus, or after that time.
  void wait_news(std::uint64_t timeout_ns) const;

  // The bench: this rank's process has ended. Ends every wait for it.
  void mark_gone(std::uint32_t rank);
  bool is_gone(std::uint32_t rank) const;
  // A rank says when it dies, so that the others can say how late they learned of it.
  void note_death(std::uint64_t moment_ns);
  std::uint64_t death_ns() const;

  std::uint64_t ticks() const;
  // Requests that have left, as rank 0 says.
  void note_finished(std::uint64_t requests);
  std::uint64_t finished() const;
  // Daemons that the bench has started anew; rank 0 lets requests wait for them.
  void note_restart();
  std::uint64_t restarts() const;

  // Boards of the collective, in order: one that has failed is of no use any more.
  static constexpr std::size_t kBoards = 4;
  int board_fd(std::size_t board) const { return boards_[board].fd(); }
  std::uint32_t ranks() const { return ranks_; }

 private:
  static constexpr std::uint64_t kRing = 64;
  struct Shared {
    std::uint32_t bell;
    std::uint32_t spare;
    std::uint64_t published;
    std::uint64_t death_ns;
    std::uint64_t finished;
    std::uint64_t restarts;
    std::array<std::uint64_t, kWorldMax> taken;
    std::array<std::uint32_t, kWorldMax> gone;
    std::array<TickInput, kRing> ring;
  };
  EngineBus(Shared* shared, std::uint32_t ranks, std::vector<BoardWatcher> boards)
      : shared_(shared), ranks_(ranks), boards_(std::move(boards)) {}
  void ring_bell();
  bool has_room() const;

  Shared* shared_;
  std::uint32_t ranks_;
  std::vector<BoardWatcher> boards_;
};

// One rank's part in the engine's collective: a minimum over all ranks.
class EngineReduce {
 public:
  EngineReduce(const EngineBus& bus, std::uint32_t rank, std::int64_t timeout_ns)
      : bus_(bus), rank_(rank), timeout_ns_(timeout_ns) {}
  // ok on all ranks or on none; disconnected: one has died; timed_out.
  [[nodiscard]] Code reduce(std::span<std::int64_t> words);
  std::uint64_t calls() const { return calls_; }

 private:
  Result<void> attach(std::size_t words);

  const EngineBus& bus_;
  const std::uint32_t rank_;
  const std::int64_t timeout_ns_;
  std::optional<AgreementBoard> board_;
  std::size_t next_board_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace hc
