// SPDX-License-Identifier: Apache-2.0
// op_table: records of operations and items, and the lists of waiters on parts.
#include "daemon/engine/op_table.h"

#include "proto/check.h"

namespace hc {

OpTable::OpTable(std::uint32_t ops_max, std::uint32_t items_max)
    : ops_(ops_max), active_at_(ops_max, kNone32), items_(items_max) {
  for (std::uint32_t i = ops_max; i-- > 0;) {
    free_ops_.push_back(i);
  }
  free_items_.reserve(items_max);
  for (std::uint32_t i = items_max; i-- > 0;) {
    free_items_.push_back(i);
  }
}

std::uint32_t OpTable::open(SessionId session) {
  if (free_ops_.empty()) {
    return kNone32;
  }
  const std::uint32_t index = free_ops_.back();
  free_ops_.pop_back();
  Op& op = ops_[index];
  HC_CHECK(!op.in_use);
  const std::uint32_t use = op.use + 1;
  op = Op{};
  op.use = use;
  op.in_use = true;
  op.session = session;
  active_at_[index] = static_cast<std::uint32_t>(active_.size());
  active_.push_back(index);
  return index;
}

void OpTable::close(std::uint32_t index) {
  Op& op = ops_[index];
  HC_CHECK(op.in_use);
  HC_CHECK(op.items.empty());
  HC_CHECK(op.copies == 0);
  HC_CHECK(op.held.empty());
  op.in_use = false;
  const std::uint32_t at = active_at_[index];
  active_[at] = active_.back();
  active_at_[active_[at]] = at;
  active_.pop_back();
  active_at_[index] = kNone32;
  free_ops_.push_back(index);
}

std::uint32_t OpTable::new_item(std::uint32_t op) {
  HC_CHECK(!free_items_.empty());
  const std::uint32_t index = free_items_.back();
  free_items_.pop_back();
  Item& item = items_[index];
  HC_CHECK(!item.in_use);
  const std::uint32_t use = item.use + 1;
  item = Item{};
  item.use = use;
  item.in_use = true;
  item.op = op;
  item.place = static_cast<std::uint32_t>(ops_[op].items.size());
  ops_[op].items.push_back(index);
  return index;
}

void OpTable::free_item(std::uint32_t index) {
  Item& item = items_[index];
  HC_CHECK(item.in_use);
  HC_CHECK(!item.on_list);
  auto& siblings = ops_[item.op].items;
  HC_CHECK(siblings[item.place] == index);
  siblings[item.place] = siblings.back();
  items_[siblings[item.place]].place = item.place;
  siblings.pop_back();
  item.in_use = false;
  ++item.use;
  free_items_.push_back(index);
  ++items_freed_;
}

void OpTable::add_waiter(Catalog& catalog, std::uint32_t index) {
  Item& item = items_[index];
  HC_CHECK(item.in_use && !item.on_list);
  Part& part = catalog.part(item.part);
  item.previous = kNone32;
  item.next = part.first_waiter;
  if (item.next != kNone32) {
    items_[item.next].previous = index;
  }
  part.first_waiter = index;
  item.on_list = true;
}

void OpTable::remove_waiter(Catalog& catalog, std::uint32_t index) {
  Item& item = items_[index];
  HC_CHECK(item.on_list);
  (item.previous == kNone32 ? catalog.part(item.part).first_waiter
                            : items_[item.previous].next) = item.next;
  if (item.next != kNone32) {
    items_[item.next].previous = item.previous;
  }
  item.on_list = false;
  item.previous = item.next = kNone32;
}

}  // namespace hc
