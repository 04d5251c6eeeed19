// SPDX-License-Identifier: Apache-2.0
// reload_model: how much an engine would hit whose every reload came from a perfect LRU cache of
// exactly N pages.
//
// What the engine has in L1 and L2 by itself is taken as it was; what a reload brings is what the
// model holds. A page whose store is not settled is there or not: how far the copies have come on
// every rank is nobody's to know, so both are right, and the model says what the engine had within
// these bounds. Owner thread: one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/ctl/lru_model.h"
#include "client/ctl/reload_board.h"

namespace hc {

struct ModelCounts {
  std::uint64_t referenced_pages = 0;
  std::uint64_t hit_pages = 0;        // that the engine had, from wherever
  std::uint64_t model_hit_pages = 0;
  std::uint64_t offered_hits = 0;     // of the offers alone, as the model has them
};

class ReloadModel {
 public:
  ReloadModel(const Trace& trace, std::uint64_t l3_pages, std::uint32_t pages_min);
  ModelCounts replay(std::span<const ReloadEvent> events);

 private:
  void offer(const ReloadEvent& event);
  std::uint64_t settled_prefix(std::span<const std::uint32_t> blocks) const;
  std::span<const std::uint32_t> blocks_of(const ReloadEvent& event) const;

  const Trace& trace_;
  const std::uint32_t pages_min_;
  LruModel model_;
  struct Reach {
    std::uint32_t least = 0;
    std::uint32_t most = 0;
  };
  std::vector<Reach> reach_;               // per request: leading pages there after its reloads
  std::vector<std::uint32_t> unsettled_;   // per block: stores of it that are under way
  ModelCounts counts_;
};

}  // namespace hc
