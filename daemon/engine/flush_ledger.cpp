// SPDX-License-Identifier: Apache-2.0
// flush_ledger: a bounded list; what falls off its old end counts for every barrier.
#include "daemon/engine/flush_ledger.h"

#include <algorithm>

namespace hc {

namespace {

constexpr std::size_t kLossesMax = 4096;

}  // namespace

void FlushLedger::lose(std::uint64_t barrier, Code code) {
  losses_.push_back({barrier, code});
  if (losses_.size() > kLossesMax) {
    forgotten_code_ = losses_.front().code;
    losses_.pop_front();
    ++forgotten_;
  }
}

Code FlushLedger::first_covered(std::uint64_t told, std::uint64_t barrier) const {
  if (told < forgotten_) {
    return forgotten_code_;
  }
  for (std::uint64_t i = told - forgotten_; i < losses_.size(); ++i) {
    if (losses_[i].barrier <= barrier) {
      return losses_[i].code;
    }
  }
  return Code::ok;
}

std::uint64_t FlushLedger::told_by(std::uint64_t told, std::uint64_t barrier) const {
  std::uint64_t number = std::max(told, forgotten_);
  while (number < last() && losses_[number - forgotten_].barrier <= barrier) {
    ++number;
  }
  return number;
}

}  // namespace hc
