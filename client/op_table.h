// SPDX-License-Identifier: Apache-2.0
// op_table: the operations in flight of one attachment, one per operation slot.
//
// Owner thread: any, under the client's mutex. Invariants: a slot is taken exactly from submission
// to the terminal completion; an op id names attachment, slot and use of the slot, so it is never
// 0 and never names a later operation.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "proto/limits.h"
#include "proto/messages.h"

namespace hc {

// attachment (26 bits, from 1) | use of the slot (32 bits) | slot (6 bits).
struct OpName {
  std::uint32_t attachment = 0;
  std::uint32_t sequence = 0;
  std::uint16_t slot = 0;
  friend bool operator==(const OpName&, const OpName&) = default;
};
static_assert(kOpSlotsPerSession == 64, "six bits of an op id name the slot");
inline constexpr std::uint32_t kAttachmentsMax = (1U << 26) - 1;

constexpr std::uint64_t op_id_of(const OpName& name) {
  return std::uint64_t{name.attachment} << 38 | std::uint64_t{name.sequence} << 6 | name.slot;
}
constexpr OpName op_name_of(std::uint64_t op_id) {
  return {static_cast<std::uint32_t>(op_id >> 38), static_cast<std::uint32_t>(op_id >> 6),
          static_cast<std::uint16_t>(op_id & 63U)};
}

struct RankOp;  // client_rank.h

struct OpRecord {
  Verb verb = Verb::none;
  std::uint32_t region = 0;  // store and load only
  std::uint32_t page_count = 0;
  std::uint64_t user_data = 0;
  std::chrono::steady_clock::time_point late_at;  // when the client itself says that it is late
  bool on_device = false;                         // the daemon copies memory of a GPU
  std::shared_ptr<const RankOp> by_rank;          // we copy; else null
  bool unasked = false;                           // nobody waits for its completion
  bool late = false;                              // a `late` completion has been handed out
  std::uint64_t lease = 0;                        // handle of the lease that this operation granted

  // Until its terminal completion the memory of the region belongs to the operation.
  bool names_memory() const { return verb == Verb::store || verb == Verb::load; }
};

class OpTable {
 public:
  explicit OpTable(std::uint32_t attachment);

  // Nothing when every slot is taken.
  std::optional<OpName> take(const OpRecord& record);
  // Nothing unless the operation is in flight: of this attachment, not answered yet.
  OpRecord* find(const OpName& name);
  void end(const OpName& name);

  std::uint32_t in_flight() const { return in_flight_; }
  std::uint32_t in_flight_of_region(std::uint32_t region) const;
  bool any_on_device() const;  // names memory of a GPU
  // When the next operation becomes late; nothing once each of them is, or none is in flight.
  std::optional<std::chrono::steady_clock::time_point> next_late() const;
  // In the order of the slots.
  std::vector<OpName> all() const;
  std::uint32_t attachment() const { return attachment_; }

 private:
  struct Slot {
    std::uint32_t sequence = 0;
    bool taken = false;
    OpRecord record;
  };
  std::uint32_t attachment_;
  std::uint32_t in_flight_ = 0;
  std::array<Slot, kOpSlotsPerSession> slots_{};
  // Free slots, used as a ring: the slot freed longest ago is taken next, so that a stray answer
  // of the daemon meets an unused slot and not the operation that follows.
  std::array<std::uint16_t, kOpSlotsPerSession> free_{};
  std::uint32_t free_head_ = 0;
};

}  // namespace hc
