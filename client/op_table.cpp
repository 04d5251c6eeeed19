// SPDX-License-Identifier: Apache-2.0
// op_table: slots in an array, free ones in a ring beside it.
#include "client/op_table.h"

#include <algorithm>

#include "proto/check.h"

namespace hc {

OpTable::OpTable(std::uint32_t attachment) : attachment_(attachment) {
  HC_CHECK(attachment >= 1 && attachment <= kAttachmentsMax);
  for (std::uint16_t slot = 0; slot < kOpSlotsPerSession; ++slot) {
    free_[slot] = slot;
  }
}

std::optional<OpName> OpTable::take(const OpRecord& record) {
  HC_CHECK(record.verb != Verb::none);
  if (in_flight_ == kOpSlotsPerSession) {
    return std::nullopt;
  }
  const std::uint16_t number = free_[free_head_ % kOpSlotsPerSession];
  ++free_head_;
  ++in_flight_;
  Slot& slot = slots_[number];
  HC_CHECK(!slot.taken);
  slot.taken = true;
  ++slot.sequence;
  slot.record = record;
  return OpName{attachment_, slot.sequence, number};
}

OpRecord* OpTable::find(const OpName& name) {
  if (name.attachment != attachment_ || name.slot >= kOpSlotsPerSession) {
    return nullptr;
  }
  Slot& slot = slots_[name.slot];
  return slot.taken && slot.sequence == name.sequence ? &slot.record : nullptr;
}

void OpTable::end(const OpName& name) {
  HC_CHECK(find(name) != nullptr);
  HC_CHECK(in_flight_ > 0);
  slots_[name.slot].taken = false;
  // The free slots stand in [free_head_, free_head_ + count); this one goes behind the last.
  const std::uint32_t free_count = kOpSlotsPerSession - in_flight_;
  free_[(free_head_ + free_count) % kOpSlotsPerSession] = name.slot;
  --in_flight_;
}

std::uint32_t OpTable::in_flight_of_region(std::uint32_t region) const {
  std::uint32_t count = 0;
  for (const Slot& slot : slots_) {
    count += slot.taken && slot.record.names_memory() && slot.record.region == region ? 1U : 0U;
  }
  return count;
}

bool OpTable::any_on_device() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.taken && slot.record.names_memory() && slot.record.on_device;
  });
}

std::optional<std::chrono::steady_clock::time_point> OpTable::next_late() const {
  std::optional<std::chrono::steady_clock::time_point> next;
  for (const Slot& slot : slots_) {
    if (slot.taken && !slot.record.late && (!next || slot.record.late_at < *next)) {
      next = slot.record.late_at;
    }
  }
  return next;
}

std::vector<OpName> OpTable::all() const {
  std::vector<OpName> names;
  for (std::uint16_t number = 0; number < kOpSlotsPerSession; ++number) {
    if (slots_[number].taken) {
      names.push_back({attachment_, slots_[number].sequence, number});
    }
  }
  return names;
}

}  // namespace hc
