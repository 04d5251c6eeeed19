// SPDX-License-Identifier: Apache-2.0
// flush_ledger: parts that were stored and will not become durable, so that no flush which covers
// them says that all is well.
//
// Owner: the reactor thread.
// Losses are numbered. Whoever reports them (a session, the operator) remembers the last number it
// was told: each loss is told once to each, and a later flush speaks of newer ones only.
#pragma once

#include <cstdint>
#include <deque>

#include "proto/status.h"

namespace hc {

class FlushLedger {
 public:
  // The part that became unsettled with this barrier is lost.
  void lose(std::uint64_t barrier, Code code);
  // The number of the newest loss.
  std::uint64_t last() const { return forgotten_ + losses_.size(); }
  // Of the losses after number `told`, the first one among parts up to `barrier`; ok: none.
  Code first_covered(std::uint64_t told, std::uint64_t barrier) const;
  // The number up to which a flush of `barrier` has told everything.
  std::uint64_t told_by(std::uint64_t told, std::uint64_t barrier) const;

 private:
  struct Loss {
    std::uint64_t barrier = 0;
    Code code = Code::ok;
  };
  std::deque<Loss> losses_;       // bounded
  std::uint64_t forgotten_ = 0;   // older ones: known only as lost
  Code forgotten_code_ = Code::ok;
};

}  // namespace hc
