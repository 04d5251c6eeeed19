// SPDX-License-Identifier: Apache-2.0
// hicache: C++20 over hicache.h: a client that closes itself, spans instead of pointer and length.
//
// Header only: the shared library keeps its C interface. Every function is the one of hicache.h
// with the same name, which documents it; errors are hicache_code values, never exceptions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "hicache.h"

namespace hicache {

// A code and, when it is HICACHE_OK, a value.
template <typename T>
struct [[nodiscard]] Result {
  hicache_code code = HICACHE_OK;
  T value{};
  explicit operator bool() const { return code == HICACHE_OK; }
};

using Pages = std::span<const hicache_page>;
using Completions = std::span<hicache_completion>;
using OpId = std::uint64_t;
using Key = std::array<std::uint8_t, 32>;

// Owns a client. Moved-from and default-constructed clients are empty: every call answers
// HICACHE_BAD_ARGUMENT.
class Client {
 public:
  // What the destructor gives hicache_close. Call close() to choose, and to hear its answer:
  // HICACHE_TIMED_OUT means that the daemon may still touch the memory of operations.
  static constexpr std::uint32_t kCloseTimeoutMs = 5000;

  Client() = default;
  explicit Client(hicache_client* handle) : handle_(handle) {}
  Client(Client&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Client& operator=(Client&& other) noexcept {
    if (this != &other) {
      static_cast<void>(close(kCloseTimeoutMs));
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { static_cast<void>(close(kCloseTimeoutMs)); }

  static Result<Client> open(const hicache_options& options, const hicache_space& space) {
    hicache_client* handle = nullptr;
    const hicache_code code = hicache_open(&options, &space, &handle);
    return {code, Client(handle)};
  }
  hicache_code close(std::uint32_t timeout_ms) {
    return hicache_close(std::exchange(handle_, nullptr), timeout_ms);
  }

  hicache_client* handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

  hicache_code state() const { return hicache_state(handle_); }
  Result<std::uint64_t> instances() const {
    Result<std::uint64_t> out;
    out.code = hicache_instances(handle_, &out.value);
    return out;
  }

  [[nodiscard]] hicache_code register_region(const hicache_region& region,
                                             std::uint32_t timeout_ms) {
    return hicache_register_region(handle_, &region, timeout_ms);
  }
  [[nodiscard]] hicache_code register_cuda_region(const hicache_cuda_region& region,
                                                  std::uint32_t timeout_ms) {
    return hicache_register_cuda_region(handle_, &region, timeout_ms);
  }
  [[nodiscard]] hicache_code unregister_region(std::uint32_t region, std::uint32_t timeout_ms) {
    return hicache_unregister_region(handle_, region, timeout_ms);
  }

  Result<hicache_prefix> exists_prefix(Pages pages) const {
    Result<hicache_prefix> out;
    out.code = hicache_exists_prefix(handle_, pages.data(), pages.size(), &out.value);
    return out;
  }
  Result<hicache_prefix> exists_prefix_all(Pages pages) const {
    Result<hicache_prefix> out;
    out.code = hicache_exists_prefix_all(handle_, pages.data(), pages.size(), &out.value);
    return out;
  }

  Result<OpId> store(const hicache_op& op, Pages pages) { return submit(hicache_store, op, pages); }
  Result<OpId> reload(const hicache_op& op, Pages pages) {
    return submit(hicache_reload, op, pages);
  }
  Result<OpId> load(const hicache_op& op, Pages pages) { return submit(hicache_load, op, pages); }
  Result<OpId> pin(const hicache_op& op, Pages pages) { return submit(hicache_pin, op, pages); }
  Result<OpId> free_object(const hicache_op& op, Pages pages) {
    return submit(hicache_free_object, op, pages);
  }
  Result<OpId> release(const hicache_op& op, std::uint64_t lease) {
    Result<OpId> out;
    out.code = hicache_release(handle_, &op, lease, &out.value);
    return out;
  }
  Result<OpId> flush(const hicache_op& op) {
    Result<OpId> out;
    out.code = hicache_flush(handle_, &op, &out.value);
    return out;
  }
  Result<OpId> cancel(const hicache_op& op, OpId target) {
    Result<OpId> out;
    out.code = hicache_cancel(handle_, &op, target, &out.value);
    return out;
  }

  // The value is the filled front of `room`.
  Result<Completions> poll(Completions room) {
    std::size_t count = 0;
    const hicache_code code = hicache_poll(handle_, room.data(), room.size(), &count);
    return {code, room.first(count)};
  }
  Result<Completions> wait(Completions room, std::uint32_t timeout_ms) {
    std::size_t count = 0;
    const hicache_code code = hicache_wait(handle_, room.data(), room.size(), timeout_ms, &count);
    return {code, room.first(count)};
  }
  Result<int> event_fd() {
    Result<int> out{HICACHE_OK, -1};
    out.code = hicache_event_fd(handle_, &out.value);
    return out;
  }

  Result<hicache_view> lease_view(std::uint64_t lease, std::uint32_t page,
                                  std::uint32_t kind) const {
    Result<hicache_view> out;
    out.code = hicache_lease_view(handle_, lease, page, kind, &out.value);
    return out;
  }
  bool view_intact(const hicache_view& view) const {
    return hicache_view_intact(handle_, &view) == 1;
  }

  [[nodiscard]] hicache_code space_switch(const char* weight_version, std::uint32_t timeout_ms) {
    return hicache_space_switch(handle_, weight_version, timeout_ms);
  }
  Result<hicache_stats> stats(std::uint32_t timeout_ms) const {
    Result<hicache_stats> out;
    out.value.struct_bytes = sizeof out.value;
    out.code = hicache_get_stats(handle_, &out.value, timeout_ms);
    return out;
  }

 private:
  using PagesCall = hicache_code (*)(hicache_client*, const hicache_op*, const hicache_page*,
                                     std::size_t, std::uint64_t*);
  Result<OpId> submit(PagesCall call, const hicache_op& op, Pages pages) {
    Result<OpId> out;
    out.code = call(handle_, &op, pages.data(), pages.size(), &out.value);
    return out;
  }

  hicache_client* handle_ = nullptr;
};

// The page hashes of one conversation, page by page as its tokens come.
class HashChain {
 public:
  HashChain(std::uint32_t page_tokens, bool bigram) : page_tokens_(page_tokens), bigram_(bigram) {}

  // Before the first extend(). Either may be nullptr, which is not the same as empty.
  [[nodiscard]] hicache_code start(const char* extra_key, const char* cache_salt) {
    int has_seed = 0;
    const hicache_code code =
        hicache_namespace_seed(extra_key, cache_salt, prior_.data(), &has_seed);
    has_prior_ = has_seed == 1;
    return code;
  }

  // Takes the next tokens and appends the keys of the pages that are full now to `keys`. Tokens
  // of the page that is not full wait for the next call.
  [[nodiscard]] hicache_code extend(std::span<const std::uint64_t> tokens, std::vector<Key>& keys) {
    waiting_.insert(waiting_.end(), tokens.begin(), tokens.end());
    const std::size_t pages_max = page_tokens_ == 0 ? 0 : waiting_.size() / page_tokens_;
    std::vector<Key> made(pages_max + 1);
    std::size_t count = 0;
    const hicache_code code =
        hicache_hash_pages(has_prior_ ? prior_.data() : nullptr, waiting_.data(), waiting_.size(),
                           page_tokens_, bigram_ ? 1 : 0, made.front().data(), made.size(), &count);
    if (code != HICACHE_OK || count == 0) {
      return code;
    }
    prior_ = made[count - 1];
    has_prior_ = true;
    keys.insert(keys.end(), made.begin(), made.begin() + static_cast<std::ptrdiff_t>(count));
    waiting_.erase(waiting_.begin(),
                   waiting_.begin() + static_cast<std::ptrdiff_t>(count * page_tokens_));
    return HICACHE_OK;
  }

 private:
  std::uint32_t page_tokens_;
  bool bigram_;
  bool has_prior_ = false;
  Key prior_{};
  std::vector<std::uint64_t> waiting_;
};

}  // namespace hicache
