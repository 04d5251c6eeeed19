// SPDX-License-Identifier: Apache-2.0
// slot_pool: which slots of a slab are handed out.
//
// Owner: the reactor thread.
// Invariants:
//   - free + taken == slot_count
//   - a slot is on the free list exactly when its bit in `taken_` is clear
// Misuse is our bug and aborts: double free, out of range, free of a slot never taken.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/ids.h"

namespace hc {

class SlotPool {
 public:
  explicit SlotPool(std::uint32_t slot_count);

  std::optional<SlotId> take();  // O(1); nothing when every slot is taken
  void free(SlotId slot);        // O(1)
  void reset();                  // every slot is free again (flush); low slots come first
  // Takes exactly these slots and frees all others, in O(slot_count). A slot that stands twice
  // or is out of range aborts.
  void rebuild(std::span<const SlotId> taken);

  bool is_taken(SlotId slot) const;
  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(next_.size()); }
  std::uint32_t free_count() const { return free_count_; }

 private:
  void link_free_slots();

  std::vector<std::uint32_t> next_;  // free list by slot; kNone32 ends it
  std::vector<bool> taken_;
  std::uint32_t head_ = kNone32;
  std::uint32_t free_count_ = 0;
};

}  // namespace hc
