// SPDX-License-Identifier: Apache-2.0
// model: which pages may exist. Bytes need no model: they follow from the key (content.h).
//
// One sequence orders stores and forgets of everybody. A page may be hit by an operation that was
// submitted after a forget only if it was stored after that forget. A forget counts for the next
// daemon only once it was acknowledged.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/sim/scenario.h"

namespace hc::sim {

struct PageTruth {
  std::uint64_t stored = 0;        // the last store that named it, by submission
  std::uint64_t gone = 0;          // the last forget, acknowledged or not
  std::uint64_t gone_for_good = 0; // the last acknowledged forget
  std::uint32_t frees_open = 0;    // free_object operations that have not ended
};

class Model {
 public:
  void reset(const Universe& universe, std::uint32_t versions) {
    pages_ = universe.pages();
    versions_ = versions;
    truths_.assign(std::size_t{versions} * pages_, PageTruth{});
  }

  std::uint64_t next() { return ++sequence_; }
  std::uint64_t now() const { return sequence_; }
  PageTruth& at(std::uint32_t version, std::uint32_t page) {
    return truths_[std::size_t{version} * pages_ + page];
  }

  bool may_be_hit(std::uint32_t version, std::uint32_t page, std::uint64_t submitted) {
    const PageTruth& truth = at(version, page);
    return truth.stored != 0 && (truth.stored > truth.gone || submitted < truth.gone);
  }
  bool may_come_back(std::uint32_t version, std::uint32_t page) {
    const PageTruth& truth = at(version, page);
    return truth.stored > truth.gone_for_good;
  }

  // Every page of a version.
  void forget_version(std::uint32_t version, std::uint64_t at_sequence, bool for_good) {
    for (std::uint32_t page = 0; page < pages_; ++page) {
      forget(version, page, at_sequence, for_good);
    }
  }
  void forget_all(std::uint64_t at_sequence, bool for_good) {
    for (std::uint32_t version = 0; version < versions_; ++version) {
      forget_version(version, at_sequence, for_good);
    }
  }
  void forget(std::uint32_t version, std::uint32_t page, std::uint64_t at_sequence,
              bool for_good) {
    PageTruth& truth = at(version, page);
    truth.gone = std::max(truth.gone, at_sequence);
    truth.gone_for_good = for_good ? std::max(truth.gone_for_good, at_sequence)
                                   : truth.gone_for_good;
  }
  void daemon_died() {
    for (PageTruth& truth : truths_) {
      truth.gone = truth.gone_for_good;
      truth.frees_open = 0;
    }
  }

 private:
  std::uint32_t pages_ = 0;
  std::uint32_t versions_ = 0;
  std::vector<PageTruth> truths_;
  std::uint64_t sequence_ = 0;
};

}  // namespace hc::sim
