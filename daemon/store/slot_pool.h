// SPDX-License-Identifier: Apache-2.0
// slot_pool: the slots of a slab that can be handed out now.
//
// Owner: the reactor thread.
// Invariants:
//   - a slot stands on the free list exactly when its bit in `free_` is set
//   - a slot without space of its own (its step is not there) is not on the list
// Misuse is our bug and aborts: a slot put twice, out of range, removed without being there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/ids.h"

namespace hc {

class SlotPool {
 public:
  explicit SlotPool(std::uint32_t slot_count);  // nothing can be taken yet

  std::optional<SlotId> take();  // O(1), the slot put last; nothing when there is none
  void put(SlotId slot);         // O(1)
  void remove(SlotId slot);      // O(1), wherever it stands
  void clear();                  // nothing can be taken

  bool contains(SlotId slot) const;
  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(links_.size()); }
  std::uint32_t free_count() const { return free_count_; }

 private:
  struct Link {
    std::uint32_t next = kNone32;
    std::uint32_t previous = kNone32;
  };

  std::vector<Link> links_;
  std::vector<bool> free_;
  std::uint32_t head_ = kNone32;
  std::uint32_t free_count_ = 0;
};

}  // namespace hc
