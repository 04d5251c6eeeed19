// SPDX-License-Identifier: Apache-2.0
// durability_ledger: stamps every touch, and knows which of them a kill may undo.
#include "client/ctl/durability_ledger.h"

#include <algorithm>
#include <limits>

#include "proto/check.h"

namespace hc {

namespace {
constexpr std::uint32_t kNoBlock = 0xFFFFFFFFU;
}  // namespace

DurabilityLedger::DurabilityLedger(std::vector<std::uint16_t> groups)
    : groups_(std::move(groups)),
      high_(groups_.size(), 0),
      low_(groups_.size(), 0),
      base_low_(groups_.size(), 0),
      born_(groups_.size(), 0),
      born_in_(groups_.size(), 0),
      acked_(groups_.size(), 0),
      lost_(groups_.size(), 0) {}

void DurabilityLedger::served(const Served& request) {
  HC_CHECK(request.loaded <= request.blocks.size());
  const std::uint32_t name = static_cast<std::uint32_t>(request.request + 1);
  for (std::size_t left = request.blocks.size(); left > 0; --left) {
    const std::uint32_t block = request.blocks[left - 1];
    touches_.push_back(request.touched ? block : kNoBlock);
    const std::uint64_t stamp = touches_.size();
    HC_CHECK(stamp > high_[block]);
    high_[block] = stamp;
    if (request.touched) {
      low_[block] = stamp;
    }
    if (left > request.loaded || born_in_[block] == 0) {
      born_[block] = request.touched ? stamp : 0;
      born_in_[block] = name;
    }
  }
  ends_.push_back({request.request, touches_.size(), request.stored_new && request.touched});
}

void DurabilityLedger::take_acks(std::span<const AckedRequests> ranks) {
  for (std::size_t block = 0; block < acked_.size(); ++block) {
    std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
    for (const AckedRequests& rank : ranks) {
      least = std::min(least, rank[block]);
    }
    acked_[block] = least;
  }
}

bool DurabilityLedger::acknowledged(std::uint32_t block) const {
  return born_in_[block] != 0 && acked_[block] >= born_in_[block];
}

bool DurabilityLedger::all_acknowledged(const RequestEnd& request, std::uint64_t begin) const {
  return std::all_of(touches_.begin() + static_cast<std::ptrdiff_t>(begin),
                     touches_.begin() + static_cast<std::ptrdiff_t>(request.end),
                     [&](std::uint32_t block) { return acked_[block] > request.request; });
}

// A durable acknowledgement of a block that was written by request r proves a commit that began
// after the touches of all requests before r, and a commit takes every touch it finds. Touches of r
// itself may have come later on another rank, and those after r belong to later groups: set aside.
std::uint64_t DurabilityLedger::committed_touches() const {
  for (std::size_t left = ends_.size(); left > 0; --left) {
    const RequestEnd& request = ends_[left - 1];
    const std::uint64_t begin = left > 1 ? ends_[left - 2].end : 0;
    if (begin < segment_begin_) {
      break;
    }
    if (request.stored_new && all_acknowledged(request, begin)) {
      return begin;
    }
  }
  return segment_begin_;
}

void DurabilityLedger::daemon_killed(std::uint64_t request_count) {
  HC_CHECK(request_count == ends_.size());
  const std::uint64_t cut = committed_touches();
  std::vector<std::uint64_t> low = base_low_;
  for (std::uint64_t at = segment_begin_; at < cut; ++at) {
    if (touches_[at] != kNoBlock) {
      low[touches_[at]] = at + 1;
    }
  }
  // The index row of a page that was acknowledged carries the access that wrote it.
  for (std::uint32_t block = 0; block < low.size(); ++block) {
    if (acknowledged(block)) {
      low[block] = std::max(low[block], born_[block]);
    }
    HC_CHECK(low[block] <= high_[block]);
  }
  low_ = low;
  base_low_ = std::move(low);
  segment_begin_ = touches_.size();
}

std::uint64_t DurabilityLedger::check(std::span<const std::uint8_t> present) {
  HC_CHECK(present.size() == high_.size());
  const std::size_t group_count =
      groups_.empty() ? 1U : std::size_t{*std::max_element(groups_.begin(), groups_.end())} + 1;
  std::vector<std::uint64_t> oldest_present(group_count,
                                            std::numeric_limits<std::uint64_t>::max());
  for (std::size_t block = 0; block < present.size(); ++block) {
    std::uint64_t& oldest = oldest_present[groups_[block]];
    if (present[block] != 0 && high_[block] != 0) {
      oldest = std::min(oldest, high_[block]);
    }
  }
  std::uint64_t found = 0;
  for (std::uint32_t block = 0; block < present.size(); ++block) {
    if (present[block] == 0 && lost_[block] == 0 && acknowledged(block) &&
        low_[block] > oldest_present[groups_[block]]) {
      lost_[block] = 1;
      ++found;
    }
  }
  lost_count_ += found;
  return found;
}

}  // namespace hc
