// SPDX-License-Identifier: Apache-2.0
// reload_board: one anonymous shared mapping: totals, stamps, the count of events, events.
#include "client/ctl/reload_board.h"

#include <cerrno>
#include <new>

#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::size_t kEventsPerRequest = 12;  // offers, a load, a store, its end; and to spare
constexpr std::size_t kPart = 64;              // bytes that a part of the mapping is rounded up to

constexpr std::size_t kTotalsBytes = round_up(sizeof(ReloadTotals), kPart);

}  // namespace

std::size_t ReloadBoards::stamps_offset() const { return kTotalsBytes * ranks_; }

std::size_t ReloadBoards::events_offset() const {
  return stamps_offset() + round_up(sizeof(std::uint64_t) * requests_ * (ranks_ + 1), kPart);
}

Result<ReloadBoards> ReloadBoards::make(std::uint32_t ranks, const Trace& trace) {
  ReloadBoards boards(nullptr, 0, ranks, trace.request_count());
  boards.events_max_ = trace.request_count() * kEventsPerRequest + 3 * trace.reference_count();
  boards.bytes_ = boards.events_offset() + kPart + boards.events_max_ * sizeof(ReloadEvent);
  // Most events never come: pages of the mapping that nobody writes take no memory.
  void* const memory = ::mmap(nullptr, boards.bytes_, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return make_error(Code::io_error, "memory for what the ranks count", errno);
  }
  boards.memory_ = static_cast<std::byte*>(memory);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    new (boards.memory_ + rank * kTotalsBytes) ReloadTotals();
  }
  return boards;
}

ReloadTotals& ReloadBoards::totals(std::uint32_t rank) const {
  return *std::launder(reinterpret_cast<ReloadTotals*>(memory_ + rank * kTotalsBytes));
}

std::span<std::uint64_t> ReloadBoards::acked(std::uint32_t rank) const {
  auto* const stamps = reinterpret_cast<std::uint64_t*>(memory_ + stamps_offset());
  return {stamps + rank * requests_, requests_};
}

std::span<std::uint64_t> ReloadBoards::admitted() const { return acked(ranks_); }

bool ReloadBoards::add_event(const ReloadEvent& event) const {
  auto& count = *reinterpret_cast<std::uint64_t*>(memory_ + events_offset());
  if (count == events_max_) {
    return false;
  }
  new (memory_ + events_offset() + kPart + count * sizeof(ReloadEvent)) ReloadEvent(event);
  ++count;
  return true;
}

std::span<const ReloadEvent> ReloadBoards::events() const {
  const auto count = *reinterpret_cast<const std::uint64_t*>(memory_ + events_offset());
  const auto* const first =
      reinterpret_cast<const ReloadEvent*>(memory_ + events_offset() + kPart);
  return {first, count};
}

}  // namespace hc
