// SPDX-License-Identifier: Apache-2.0
// engine_bus: a ring of ticks with one bell for everything; agreement boards for the collective.
//
// Why no news is lost: who tells stores first and then changes the bell; who waits reads the bell,
// then looks, and sleeps only while the bell is what it read.
#include "client/ctl/engine_bus.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <new>

#include "client/ctl/monotonic.h"
#include "client/reload/agreement_vector.h"
#include "shm/doorbell.h"

namespace hc {

namespace {

// Above every bound inside a rank: a wait for a rank that is alive ends by that rank.
constexpr std::uint64_t kBusWaitNs = 200 * kNsPerSecond;
constexpr std::uint64_t kBusLookNs = kNsPerSecond;
constexpr std::int64_t kReduceSpinNs = 20'000;

}  // namespace

Result<EngineBus> EngineBus::make(std::uint32_t ranks) {
  HC_CHECK(ranks > 0 && ranks <= kWorldMax);
  std::vector<BoardWatcher> boards;
  for (std::size_t i = 0; i < kBoards; ++i) {
    auto board = BoardWatcher::create(ranks, AgreementVector::kWords);
    HC_TRY(board);
    boards.push_back(std::move(*board));
  }
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return make_error(Code::io_error, "memory for the engine's bus", errno);
  }
  return EngineBus(new (memory) Shared(), ranks, std::move(boards));
}

EngineBus::~EngineBus() {
  if (shared_ != nullptr) {
    ::munmap(shared_, sizeof(Shared));
  }
}

void EngineBus::ring_bell() {
  add_release(shared_->bell, 1);
  wake_all(shared_->bell);
}

bool EngineBus::has_room() const {
  const std::uint64_t published = load_acquire(shared_->published);
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    if (!is_gone(rank) && published - load_acquire(shared_->taken[rank]) >= kRing) {
      return false;
    }
  }
  return true;
}

Code EngineBus::publish(const TickInput& input) {
  const std::uint64_t begin_ns = monotonic_ns();
  for (;;) {
    const std::uint32_t bell = load_acquire(shared_->bell);
    if (has_room()) {
      break;
    }
    if (monotonic_ns() - begin_ns > kBusWaitNs) {
      return Code::timed_out;
    }
    static_cast<void>(wait_on(shared_->bell, bell, kBusLookNs));
  }
  const std::uint64_t tick = load_relaxed(shared_->published);
  shared_->ring[tick % kRing] = input;
  store_release(shared_->published, tick + 1);
  store_release(shared_->taken[0], tick + 1);
  ring_bell();
  return Code::ok;
}

Code EngineBus::take(std::uint32_t rank, TickInput& out) {
  HC_CHECK(rank > 0 && rank < ranks_);
  const std::uint64_t tick = load_relaxed(shared_->taken[rank]);
  const std::uint64_t begin_ns = monotonic_ns();
  for (;;) {
    const std::uint32_t bell = load_acquire(shared_->bell);
    if (load_acquire(shared_->published) > tick) {
      break;
    }
    if (is_gone(0)) {
      return Code::disconnected;
    }
    if (monotonic_ns() - begin_ns > kBusWaitNs) {
      return Code::timed_out;
    }
    static_cast<void>(wait_on(shared_->bell, bell, kBusLookNs));
  }
  out = shared_->ring[tick % kRing];
  store_release(shared_->taken[rank], tick + 1);
  // Only a front end that found the ring full waits for this.
  if (load_acquire(shared_->published) - tick >= kRing) {
    ring_bell();
  }
  return Code::ok;
}

void EngineBus::wait_news(std::uint64_t timeout_ns) const {
  static_cast<void>(wait_on(shared_->bell, load_acquire(shared_->bell),
                            static_cast<std::int64_t>(timeout_ns)));
}

void EngineBus::mark_gone(std::uint32_t rank) {
  store_release(shared_->gone[rank], 1);
  for (BoardWatcher& board : boards_) {
    board.mark_dead(rank);
  }
  ring_bell();
}

bool EngineBus::is_gone(std::uint32_t rank) const { return load_acquire(shared_->gone[rank]) != 0; }

void EngineBus::note_death(std::uint64_t moment_ns) { store_release(shared_->death_ns, moment_ns); }

std::uint64_t EngineBus::death_ns() const { return load_acquire(shared_->death_ns); }

std::uint64_t EngineBus::ticks() const { return load_acquire(shared_->published); }

void EngineBus::note_finished(std::uint64_t requests) {
  store_release(shared_->finished, requests);
}

std::uint64_t EngineBus::finished() const { return load_acquire(shared_->finished); }

void EngineBus::note_restart() {
  add_release(shared_->restarts, 1);
  ring_bell();
}

std::uint64_t EngineBus::restarts() const { return load_acquire(shared_->restarts); }

Result<void> EngineReduce::attach(std::size_t words) {
  if (next_board_ == EngineBus::kBoards) {
    return make_error(Code::disconnected, "every collective of the engine has failed");
  }
  UniqueFd fd(::fcntl(bus_.board_fd(next_board_++), F_DUPFD_CLOEXEC, 0));
  if (!fd) {
    return make_error(Code::io_error, "a descriptor for the engine's collective", errno);
  }
  auto board = AgreementBoard::attach(std::move(fd), rank_, bus_.ranks(),
                                      static_cast<std::uint32_t>(words));
  HC_TRY(board);
  board_.emplace(std::move(*board));
  return {};
}

Code EngineReduce::reduce(std::span<std::int64_t> words) {
  ++calls_;
  if (!board_) {
    const auto attached = attach(words.size());
    if (!attached) {
      return attached.error().code;
    }
  }
  board_->tell(words);
  const Code code = board_->take(words, kReduceSpinNs, timeout_ns_);
  if (code != Code::ok) {
    board_.reset();
  }
  return code;
}

}  // namespace hc
