// SPDX-License-Identifier: Apache-2.0
// rank_board: one anonymous shared mapping, one board a rank.
#include "client/ctl/rank_board.h"

#include <cerrno>
#include <new>

#include "proto/limits.h"

namespace hc {

namespace {
constexpr std::size_t kBoardAlign = 4096;

constexpr std::size_t kAckedOffset = round_up(sizeof(RankTotals), 64);
}  // namespace

Result<RankBoards> RankBoards::make(std::uint32_t ranks, std::uint32_t block_count) {
  const std::size_t per_block = sizeof(std::uint32_t) + sizeof(std::uint8_t);
  const std::size_t stride = round_up(kAckedOffset + block_count * per_block, kBoardAlign);
  const std::size_t bytes = stride * ranks;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return make_error(Code::io_error, "memory for the results of the ranks", errno);
  }
  RankBoards boards(memory, bytes, stride, block_count);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    new (boards.board(rank)) RankTotals();
  }
  return boards;
}

RankTotals& RankBoards::totals(std::uint32_t rank) const {
  return *std::launder(reinterpret_cast<RankTotals*>(board(rank)));
}

std::span<std::uint32_t> RankBoards::acked(std::uint32_t rank) const {
  return {reinterpret_cast<std::uint32_t*>(board(rank) + kAckedOffset), block_count_};
}

std::span<std::uint8_t> RankBoards::present(std::uint32_t rank) const {
  const std::size_t offset = kAckedOffset + block_count_ * sizeof(std::uint32_t);
  return {reinterpret_cast<std::uint8_t*>(board(rank) + offset), block_count_};
}

}  // namespace hc
