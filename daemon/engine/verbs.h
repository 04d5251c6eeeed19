// SPDX-License-Identifier: Apache-2.0
// verbs: what each request does, and how its waiting items go on when a part changes.
//
// Owner: the reactor thread. One file per verb; this class is their common door and the listener
// of the works.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "daemon/engine/op_ends.h"

namespace hc {

// What an operation must have before it begins, besides its leases.
struct RoomAsked {
  std::array<std::uint32_t, kKindsMax> frames{};  // by kind
  std::uint32_t items = 0;
  std::uint32_t new_pages = 0;
};

class Verbs final : public PartEvents {
 public:
  explicit Verbs(Works& works);

  // A request that the session layer has judged. The answer may come before this returns.
  void submit(SessionId session, OpRequest request);
  void turn();
  OpEnds& ends() { return ends_; }

  // Ends every operation of a session and refuses new ones.
  void end_session_ops(SessionId session);
  // The leases become the other session's: all of them or, where it may not have them, none.
  bool hand_over(SessionId from, SessionId to, std::span<const LeaseId> listed);
  // Pages are forgotten: a store of them that still waits for room would bring them back. No
  // hashes: every page of the space; no space: every page.
  void forget_waiting(std::optional<SpaceNo> space, std::span<const PageEntry> pages);
  // When what waits looks for room again although nothing has moved.
  Instant next_retry() const;

  void part_resident(PartRef ref) override;
  void part_written(PartRef ref) override;
  void part_durable(PartRef ref) override;
  void part_fill_failed(PartRef ref, Code code) override;
  void part_spill_failed(PartRef ref, Code code) override;
  void fill_abandoned(std::uint32_t item) override;
  void copy_done(std::uint32_t item, Code code, std::uint32_t crc) override;
  void freed(FreeToken token) override;

  // Tokens of operator orders (clear) have no operation; their ends are counted here.
  std::uint64_t orders_freed() const { return orders_freed_; }
  // Parts that became unsettled so far have barriers up to this one.
  std::uint64_t last_barrier() const { return core_.next_barrier - 1; }
  static constexpr std::uint32_t kOrderToken = kNone32 - 1;

 private:
  // store_verb.cpp
  void start_store(std::uint32_t op);
  bool admit_store(std::uint32_t op);
  void start_store_page(std::uint32_t op, std::uint32_t index);
  void start_store_part(std::uint32_t op, std::uint32_t item_index, PartRef ref);
  void start_spill(PartRef ref, bool admitted);
  void settle_held_back(std::uint32_t op);
  void store_copy_done(std::uint32_t item, Code code, std::uint32_t crc);
  void store_reached(std::uint32_t item, Ack ack);
  void progress_store(std::uint32_t op);
  void discard_fill(PartRef ref);
  void publish_fill(PartRef ref, std::uint32_t crc, std::span<const std::uint8_t> metadata);
  void begin_fill(std::uint32_t item, FrameId frame);
  void fail_store_copy(std::uint32_t item, Code code);

  // store_heir.cpp
  void refill(PartRef ref, Code code);
  bool promote_heir(PartRef ref);
  std::uint32_t heir_of(PartRef ref) const;
  bool is_awaited(PartRef ref) const;
  void renew_needs(PartRef ref);
  void drop_needs(PartRef ref);
  void renew_needs_of(std::uint32_t item);
  void end_abandoned(std::uint32_t item);
  std::span<const std::uint8_t> metadata_of(const Op& op, std::uint32_t index) const;

  // load_verb.cpp
  void start_load(std::uint32_t op);
  void advance_load(std::uint32_t op);
  enum class LoadStep : std::uint8_t { next, wait, miss };
  LoadStep start_load_part(std::uint32_t op, std::uint16_t kind, PartRef ref);
  bool next_load_part(std::uint32_t op, std::uint16_t& kind, PartRef& ref, bool& missing);
  void load_copy_done(std::uint32_t item, Code code);
  void load_miss(std::uint32_t op, std::uint32_t page_index);
  void finish_load(std::uint32_t op);

  // lease_verbs.cpp
  void start_reload(std::uint32_t op);
  void start_pin(std::uint32_t op);
  bool lease_pages(std::uint32_t op);
  bool open_lease(std::uint32_t op);
  void add_to_lease(std::uint32_t op, PageId page, std::uint16_t owner);
  bool start_reload_page(std::uint32_t op, std::uint32_t index);
  void finish_reload(std::uint32_t op);
  void start_release(std::uint32_t op);

  // hand_over.cpp
  bool holds(SessionId session, LeaseId lease);
  void move_lease(SessionId from, SessionId to, LeaseId lease);

  // quota_gate.cpp
  void begin(std::uint32_t op);
  bool has_room(std::uint32_t op, const RoomAsked& asked);
  bool find_room(std::uint32_t op, const RoomAsked& asked);
  bool count_rank_pages(std::uint32_t op);
  void wait_for_room(std::uint32_t op);
  void turn_waiting();
  bool drop_idle_waits();

  // forget_verbs.cpp
  void start_free(std::uint32_t op);
  void start_flush(std::uint32_t op);
  void check_flushes();
  void finish_flush(std::uint32_t op, Code code);
  void start_cancel(std::uint32_t op);

  // verbs.cpp
  void start(std::uint32_t op);
  template <typename Fn>
  void for_each_waiter(PartRef ref, Fn&& fn);
  void free_if_done(std::uint32_t item);
  PageId page_at(std::uint32_t op, std::uint32_t index);
  void touch(PageId page);
  void note_use(std::uint32_t op, PageId page);

  Works& works_;
  Core& core_;
  OpEnds ends_;
  std::deque<std::pair<std::uint32_t, std::uint32_t>> stalled_loads_;  // op, use
  // Of sessions with quota, first come first served.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting_;  // op, use
  std::uint64_t waited_at_ = 0;    // progress at the last look
  Instant retry_at_{};
  std::uint64_t orders_freed_ = 0;
  std::uint32_t flushes_open_ = 0;
};

}  // namespace hc
