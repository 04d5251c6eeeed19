// SPDX-License-Identifier: Apache-2.0
// eviction: what is said about a page that leaves both tiers.
#pragma once

#include <cstdint>

#include "daemon/engine/catalog.h"

namespace hc {

// Why a page leaves both tiers: a spill needs a slot, a new page needs a record, or a step of slots
// gives way to another slab.
enum class EvictionCause : std::uint8_t { slot, record, step };

// Is told of every page that is about to leave both tiers, before anything of it changes, and of
// every one that would be next but stays because somebody waits for it, while there is another
// slot. The slab is the one that is full, or whose step gives way. For whoever checks or records
// the choice.
class EvictionObserver {
 public:
  virtual ~EvictionObserver() = default;
  virtual void evicting(PageId page, SlabId slab, EvictionCause cause) = 0;
  virtual void sparing(PageId page, SlabId slab) = 0;
};

}  // namespace hc
