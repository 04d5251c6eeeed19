// SPDX-License-Identifier: Apache-2.0
// hicache_group: C++20 over hicache_group.h: a group that closes itself, spans instead of pointer
// and length.
//
// Header only. Every function is the one of hicache_group.h with the same name, which documents it;
// errors are hicache_code values, never exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "hicache.hpp"
#include "hicache_group.h"

namespace hicache {

using Admits = std::span<const hicache_admit>;
using Recomputes = std::span<const hicache_recompute>;
using SettledStores = std::span<const hicache_settled>;

// What a tick has decided; good until the group's next tick, clear, join or close.
struct Decisions {
  hicache_code code = HICACHE_OK;  // anything else: the ranks are apart, join is due
  hicache_decisions raw{};
  Admits admits() const { return {raw.admits, raw.admit_count}; }
  Recomputes recomputes() const { return {raw.recomputes, raw.recompute_count}; }
  SettledStores stores() const { return {raw.stores, raw.store_count}; }
};

// Owns a group. The client outlives it. Moved-from and default-constructed groups are empty: every
// call answers HICACHE_BAD_ARGUMENT.
class Group {
 public:
  Group() = default;
  explicit Group(hicache_group* handle) : handle_(handle) {}
  Group(Group&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Group& operator=(Group&& other) noexcept {
    if (this != &other) {
      static_cast<void>(close());
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { static_cast<void>(close()); }

  static Result<Group> open(Client& client, const hicache_group_options& options) {
    hicache_group* handle = nullptr;
    const hicache_code code = hicache_group_open(client.handle(), &options, &handle);
    return {code, Group(handle)};
  }
  hicache_code close() { return hicache_group_close(std::exchange(handle_, nullptr)); }
  hicache_group* handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

  // The value: whether what is in L1 has been kept.
  Result<bool> join(std::uint32_t timeout_ms) {
    int kept = 0;
    const hicache_code code = hicache_group_join(handle_, timeout_ms, &kept);
    return {code, kept == 1};
  }
  [[nodiscard]] hicache_code set_nccl_id(std::span<const std::uint8_t, 128> id) {
    return hicache_group_set_nccl_id(handle_, id.data());
  }

  Result<hicache_match> match(Pages pages) {
    Result<hicache_match> out;
    out.code = hicache_group_match(handle_, pages.data(), pages.size(), &out.value);
    return out;
  }
  [[nodiscard]] hicache_code fill_l1(Pages pages) {
    return hicache_group_fill_l1(handle_, pages.data(), pages.size());
  }
  Result<std::uint32_t> evict_l1(std::uint32_t pages) {
    Result<std::uint32_t> out;
    out.code = hicache_group_evict_l1(handle_, pages, &out.value);
    return out;
  }
  [[nodiscard]] hicache_code lock(hicache_anchor anchor) {
    return hicache_group_lock(handle_, anchor);
  }
  [[nodiscard]] hicache_code unlock(hicache_anchor anchor) {
    return hicache_group_unlock(handle_, anchor);
  }
  // The value: how many places there are; at most room.size() of them are written.
  Result<std::size_t> places(hicache_anchor anchor, std::span<hicache_place> room) const {
    Result<std::size_t> out;
    out.code = hicache_group_places(handle_, anchor, room.data(), room.size(), &out.value);
    return out;
  }
  [[nodiscard]] hicache_code end_lease(std::uint64_t lease) {
    return hicache_group_end_lease(handle_, lease);
  }
  [[nodiscard]] hicache_code clear() { return hicache_group_clear(handle_); }

  // The value is HICACHE_DECLINE_*.
  Result<std::uint32_t> offer(const hicache_miss& miss) {
    Result<std::uint32_t> out;
    out.code = hicache_group_offer(handle_, &miss, &out.value);
    return out;
  }
  [[nodiscard]] hicache_code withdraw(std::uint64_t request) {
    return hicache_group_withdraw(handle_, request);
  }
  // The value is the store's number.
  Result<std::uint64_t> store(const hicache_op& op, Pages pages, std::size_t first_page) {
    Result<std::uint64_t> out;
    out.code = hicache_group_store(handle_, &op, pages.data(), pages.size(), first_page,
                                   &out.value);
    return out;
  }
  bool take(const hicache_completion& completion) {
    return hicache_group_take(handle_, &completion) == 1;
  }
  Decisions tick() {
    Decisions out;
    out.code = hicache_group_tick(handle_, &out.raw);
    return out;
  }
  Result<hicache_group_stats> stats() const {
    Result<hicache_group_stats> out;
    out.value.struct_bytes = sizeof out.value;
    out.code = hicache_group_get_stats(handle_, &out.value);
    return out;
  }

 private:
  hicache_group* handle_ = nullptr;
};

}  // namespace hicache
