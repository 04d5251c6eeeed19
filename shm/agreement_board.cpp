// SPDX-License-Identifier: Apache-2.0
// agreement_board: rounds, the bell, and the minimum.
#include "shm/agreement_board.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <limits>
#include <string>
#include <utility>

#include "proto/check.h"
#include "proto/versions.h"
#include "shm/doorbell.h"
#include "shm/shared_word.h"

namespace hc {

namespace {

constexpr std::int64_t kBoardSecondNs = 1'000'000'000;
constexpr int kLooksPerTime = 8;
constexpr std::int64_t kNeutral = std::numeric_limits<std::int64_t>::max();

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kBoardSecondNs + now.tv_nsec;
}

Error refuse_board(const std::string& why) {
  return make_error(Code::refused, "agreement board: " + why);
}

enum class BoardSize : std::uint8_t { at_least, exact };

struct OpenedBoard {
  MemoryFile file;
  Region region;
};

// Judges a file that somebody else gave.
Result<OpenedBoard> open_board(UniqueFd&& fd, std::uint32_t world, std::uint32_t words,
                               BoardSize size) {
  const std::uint64_t size_bytes = board_bytes(world, words);
  auto file = MemoryFile::from_fd(std::move(fd), {.size_bytes = size_bytes,
                                                  .is_exact = size == BoardSize::exact,
                                                  .allow_huge_pages = false});
  HC_TRY(file);
  auto region = Region::map(file->fd(), {.size_bytes = size_bytes, .read_only = false});
  HC_TRY(region);
  const auto* const header = region->at<BoardHeader>(0);
  if (load_acquire(header->magic) != kBoardMagic) {
    return refuse_board("magic is wrong");
  }
  if (load_acquire(header->protocol) != kProtocolVersion) {
    return refuse_board("its protocol is another one");
  }
  if (load_acquire(header->world) != world || load_acquire(header->words) != words) {
    return refuse_board("it is made for " + std::to_string(load_acquire(header->world)) +
                        " ranks of " + std::to_string(load_acquire(header->words)) +
                        " words, wanted " + std::to_string(world) + " of " +
                        std::to_string(words));
  }
  return OpenedBoard{std::move(*file), std::move(*region)};
}

Result<void> check_board_size(std::uint32_t world, std::uint32_t words) {
  if (world == 0 || world > kBoardWorldMax || words == 0 || words > kBoardWordsMax) {
    return make_error(Code::bad_argument,
                      "world = " + std::to_string(world) + ", words = " + std::to_string(words) +
                          ": must be 1..64 and 1..256");
  }
  return {};
}

}  // namespace

Result<BoardWatcher> BoardWatcher::create(std::uint32_t world, std::uint32_t words) {
  HC_TRY_VOID(check_board_size(world, words));
  auto file = MemoryFile::create("hicached-agreement", board_bytes(world, words),
                                 {.commit_memory = true});
  HC_TRY(file);
  auto region = Region::map(file->fd(), {.size_bytes = file->size_bytes(), .read_only = false});
  HC_TRY(region);
  HC_TRY_VOID(file->finish_seals(false));
  auto* const header = region->writable_at<BoardHeader>(0);
  header->magic = kBoardMagic;
  header->protocol = kProtocolVersion;
  header->world = world;
  header->words = words;
  return BoardWatcher(std::move(*file), std::move(*region), words);
}

Result<BoardWatcher> BoardWatcher::adopt(UniqueFd&& fd, std::uint32_t world,
                                         std::uint32_t words) {
  HC_TRY_VOID(check_board_size(world, words));
  auto opened = open_board(std::move(fd), world, words, BoardSize::exact);
  HC_TRY(opened);
  return BoardWatcher(std::move(opened->file), std::move(opened->region), words);
}

void BoardWatcher::mark_dead(std::uint32_t rank) {
  auto* const member = region_.writable_at<BoardMember>(board_member_offset(rank, words_));
  store_release(member->dead, 1);
  auto* const header = region_.writable_at<BoardHeader>(0);
  add_release(header->bell, 1);
  wake_all(header->bell);
}

AgreementBoard::AgreementBoard(Region region, std::uint32_t rank, std::uint32_t world,
                               std::uint32_t words)
    : region_(std::move(region)),
      header_(region_.writable_at<BoardHeader>(0)),
      rank_(rank),
      world_(world),
      words_(words) {}

Result<AgreementBoard> AgreementBoard::attach(UniqueFd fd, std::uint32_t rank,
                                              std::uint32_t world, std::uint32_t words) {
  HC_CHECK(rank < world && world <= kBoardWorldMax && words <= kBoardWordsMax);
  auto opened = open_board(std::move(fd), world, words, BoardSize::at_least);
  HC_TRY(opened);
  AgreementBoard board(std::move(opened->region), rank, world, words);
  if (load_acquire(board.member(rank).round) != 0) {
    return refuse_board("rank " + std::to_string(rank) + " has taken part already");
  }
  return board;
}

BoardMember& AgreementBoard::member(std::uint32_t rank) {
  return *region_.writable_at<BoardMember>(board_member_offset(rank, words_));
}

const BoardMember& AgreementBoard::member(std::uint32_t rank) const {
  return *region_.at<BoardMember>(board_member_offset(rank, words_));
}

bool AgreementBoard::has_gone() const {
  for (std::uint32_t rank = 0; rank < world_; ++rank) {
    if (load_acquire(member(rank).dead) != 0 || load_acquire(member(rank).left) != 0) {
      return true;
    }
  }
  return false;
}

std::int64_t* AgreementBoard::vector(std::uint32_t rank) {
  const std::uint64_t half = round_ % 2 * board_vector_bytes(words_);
  return region_.writable_at<std::int64_t>(board_member_offset(rank, words_) +
                                           sizeof(BoardMember) + half);
}

void AgreementBoard::ring() {
  full_fence();
  for (std::uint32_t rank = 0; rank < world_; ++rank) {
    if (rank != rank_ && load_relaxed(member(rank).sleeping) != 0) {
      add_release(header_->bell, 1);
      wake_all(header_->bell);
      return;
    }
  }
}

// Lines that hold nothing are not touched: a rank with little to say moves few cache lines.
void AgreementBoard::tell(std::span<const std::int64_t> words) {
  HC_CHECK(words.size() == words_);
  ++round_;
  std::int64_t* const out = vector(rank_);
  std::uint32_t lines = 0;
  for (std::size_t first = 0; first < words.size(); first += kBoardLineWords) {
    const auto line = words.subspan(first, std::min(kBoardLineWords, words.size() - first));
    if (std::all_of(line.begin(), line.end(), [](std::int64_t at) { return at == kNeutral; })) {
      continue;
    }
    lines |= 1U << first / kBoardLineWords;
    for (std::size_t i = 0; i < line.size(); ++i) {
      store_relaxed(out[first + i], line[i]);
    }
  }
  store_relaxed(member(rank_).lines[round_ % 2], lines);
  store_release(member(rank_).round, round_);
  ring();
}

void AgreementBoard::leave() {
  store_release(member(rank_).left, 1);
  ring();
}

AgreementBoard::Members AgreementBoard::look() {
  for (std::uint32_t rank = 0; rank < world_; ++rank) {
    BoardMember& at = member(rank);
    if (load_acquire(at.round) >= round_) {
      continue;
    }
    const bool gone = load_acquire(at.dead) != 0 || load_acquire(at.left) != 0 ||
                      load_acquire(header_->verdict) % 2 != 0;
    if (!gone) {
      return Members::waiting;
    }
    if (load_acquire(at.round) < round_) {
      return Members::gone;
    }
  }
  return Members::complete;
}

// (1) and (2) of the header: what this rank says of a round that it would give up.
AgreementBoard::Members AgreementBoard::doubt() {
  std::uint64_t seen = load_acquire(header_->doubt);
  while (seen < round_ && !compare_exchange(header_->doubt, seen, round_)) {
  }
  full_fence();
  return look();
}

// True when this round is complete, for all ranks and for good; false when it, or one before it,
// has failed.
bool AgreementBoard::decide(bool failed) {
  std::uint64_t seen = load_acquire(header_->verdict);
  while (seen < 2 * round_ && seen % 2 == 0) {
    const std::uint64_t wanted = 2 * round_ + (failed ? 1U : 0U);
    if (compare_exchange(header_->verdict, seen, wanted)) {
      return !failed;
    }
  }
  // Another rank may have given up the next round by now, which follows a complete one.
  return seen % 2 == 0 || seen / 2 > round_;
}

void AgreementBoard::reduce(std::span<std::int64_t> out) {
  std::fill(out.begin(), out.end(), kNeutral);
  for (std::uint32_t rank = 0; rank < world_; ++rank) {
    const std::int64_t* const from = vector(rank);
    for (std::uint32_t lines = load_relaxed(member(rank).lines[round_ % 2]); lines != 0;
         lines &= lines - 1) {
      const auto first = static_cast<std::size_t>(std::countr_zero(lines)) * kBoardLineWords;
      const std::size_t end = std::min(first + kBoardLineWords, out.size());
      for (std::size_t i = first; i < end; ++i) {
        out[i] = std::min(out[i], load_relaxed(from[i]));
      }
    }
  }
}

// (a) to (d) of the header.
Code AgreementBoard::sleep(std::int64_t timeout_ns) {
  std::uint32_t& sleeping = member(rank_).sleeping;
  store_relaxed(sleeping, 1);
  full_fence();
  const std::uint32_t seen = load_acquire(header_->bell);
  const Code code = look() == Members::waiting ? wait_on(header_->bell, seen, timeout_ns)
                                               : Code::ok;
  store_relaxed(sleeping, 0);
  return code;
}

// The clock is looked at between some looks at the others, each of which may cost less.
Code AgreementBoard::await(std::int64_t spin_ns, std::int64_t timeout_ns) {
  Members members = look();
  const std::int64_t begin = members == Members::waiting ? now_ns() : 0;
  while (members == Members::waiting) {
    const std::int64_t waited = now_ns() - begin;
    if (waited >= timeout_ns) {
      return Code::timed_out;
    }
    if (waited >= spin_ns && sleep(timeout_ns - waited) == Code::io_error) {
      return Code::io_error;
    }
    members = look();
    for (int spins = 0; spins < kLooksPerTime && members == Members::waiting; ++spins) {
      spin_pause();
      members = look();
    }
  }
  return members == Members::complete ? Code::ok : Code::disconnected;
}

Code AgreementBoard::take(std::span<std::int64_t> out, std::int64_t spin_ns,
                          std::int64_t timeout_ns) {
  HC_CHECK(out.size() == words_ && round_ > 0);
  const Code seen = await(spin_ns, timeout_ns);
  const bool is_plain = seen == Code::ok && load_acquire(header_->doubt) < round_;
  if (!is_plain && !decide(seen != Code::ok && doubt() != Members::complete)) {
    ring();  // who waits for somebody else sees the verdict
    return seen == Code::ok ? Code::disconnected : seen;
  }
  reduce(out);
  return Code::ok;
}

}  // namespace hc
