// SPDX-License-Identifier: Apache-2.0
// op_table: bounded tables of operations and items, allocated at start.
//
// Owner: the reactor thread.
// Invariants: an item in use belongs to an operation in use and stands in its list of items; an
// item that waits stands on the list of its part.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/operation.h"

namespace hc {

class OpTable {
 public:
  OpTable(std::uint32_t ops_max, std::uint32_t items_max);

  std::uint32_t open(SessionId session);  // kNone32 when full
  void close(std::uint32_t op);
  Op& op(std::uint32_t index) { return ops_[index]; }
  const Op& op(std::uint32_t index) const { return ops_[index]; }
  const std::vector<std::uint32_t>& active() const { return active_; }

  std::uint32_t new_item(std::uint32_t op);  // the caller checked items_free
  void free_item(std::uint32_t item);
  Item& item(std::uint32_t index) { return items_[index]; }
  std::uint32_t items_free() const { return static_cast<std::uint32_t>(free_items_.size()); }
  std::uint64_t items_freed() const { return items_freed_; }  // so far
  std::uint32_t items_max() const { return static_cast<std::uint32_t>(items_.size()); }

  void add_waiter(Catalog& catalog, std::uint32_t item);
  void remove_waiter(Catalog& catalog, std::uint32_t item);

 private:
  std::vector<Op> ops_;
  std::vector<std::uint32_t> free_ops_;
  std::vector<std::uint32_t> active_;
  std::vector<std::uint32_t> active_at_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> free_items_;
  std::uint64_t items_freed_ = 0;
};

}  // namespace hc
