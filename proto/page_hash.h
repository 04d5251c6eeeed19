// SPDX-License-Identifier: Apache-2.0
// page_hash: content hashes of pages, byte for byte what the engine's own storage layer computes.
//
// Owner thread: any. There is no shared state; one Sha256 object belongs to one thread.
// Invariants: the hash of a page depends only on the page before it and on its own token ids, so a
// chain from the root and a chain from any of its pages give the same hashes. Page size and bigram
// flag are NOT in the hash; the space keeps such pages apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/ids.h"
#include "proto/result.h"

struct evp_md_ctx_st;  // EVP_MD_CTX of OpenSSL, kept out of every includer.

namespace hc {

inline constexpr std::size_t kSha256Bytes = 32;
inline constexpr std::size_t kPageHashHexChars = 2 * kSha256Bytes;
inline constexpr std::size_t kOpaqueKeyBytesMin = 16;
inline constexpr std::size_t kOpaqueKeyBytesMax = 36;
inline constexpr std::uint64_t kTokenIdMax = (1ULL << 63) - 1;   // A negative id lies above it.
inline constexpr std::uint64_t kNarrowTokenIdMax = 0xFFFFFFFFULL;  // Above it a page is wide.

using Sha256Digest = std::array<std::uint8_t, kSha256Bytes>;

// Streaming SHA-256. Making one costs more than hashing a page, so reuse it: finish() leaves it
// ready for the next message. No input can make it fail; a libcrypto that offers no SHA-256, or has
// no memory, aborts. A program asks check_sha256() once at start to say the former in one line.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept = default;
  Sha256& operator=(Sha256&&) noexcept = default;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::uint8_t> bytes);
  Sha256Digest finish();

 private:
  struct FreeContext {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, FreeContext> context_;
};

Sha256Digest sha256(std::span<const std::uint8_t> bytes);

// `unsupported` when libcrypto, as configured on this host, offers no SHA-256.
Result<void> check_sha256();

// A unit is one token id, or with `bigram` the pair of an id and its successor (EAGLE keys).
struct PageHashOptions {
  std::uint32_t page_tokens = 0;     // Units in a page, 1..kPageTokensMax.
  bool bigram = false;               // N raw ids are N - 1 units.
  bool include_short_tail = false;   // Hash a last page of fewer units too. Nothing stores these.
};

// Units that `raw_ids` token ids make.
constexpr std::uint64_t unit_count(std::uint64_t raw_ids, bool bigram) {
  if (!bigram) {
    return raw_ids;
  }
  return raw_ids == 0 ? 0 : raw_ids - 1;
}

// Pages that hash_pages() makes of `raw_ids` token ids: floor(N / ps), of bigrams
// floor((N - 1) / ps). Zero for a page_tokens of zero, which hash_pages() refuses.
constexpr std::uint64_t page_count(std::uint64_t raw_ids, const PageHashOptions& options) {
  if (options.page_tokens == 0) {
    return 0;
  }
  const std::uint64_t units = unit_count(raw_ids, options.bigram);
  const bool tail = options.include_short_tail && units % options.page_tokens != 0;
  return units / options.page_tokens + (tail ? 1U : 0U);
}

// Replaces `out` by the chained hashes of the pages of `tokens`, which are raw ids in both modes:
// page k of bigrams reads ids k*ps .. k*ps+ps, its last id being the first of page k + 1. To go on
// from page k - 1 (the anchor), pass its hash as `prior` and the ids from k*ps on.
// A page with an id above kNarrowTokenIdMax is hashed in the wide form. Fails with `bad_argument`
// on a page size out of range or an id above kTokenIdMax, and leaves `out` empty then. Ids behind
// the last hashed page are not looked at.
Result<void> hash_pages(const std::optional<PageHash>& prior,
                        std::span<const std::uint64_t> tokens, const PageHashOptions& options,
                        std::vector<PageHash>& out);
Result<void> hash_pages(const std::optional<PageHash>& prior,
                        std::span<const std::uint32_t> tokens, const PageHashOptions& options,
                        std::vector<PageHash>& out);

// One hash over all units of `tokens`, whatever their number: the engine's get_hash_str without a
// page size. Without units and prior it is the SHA-256 of nothing.
Result<PageHash> hash_units(const std::optional<PageHash>& prior,
                            std::span<const std::uint64_t> tokens, bool bigram);
Result<PageHash> hash_units(const std::optional<PageHash>& prior,
                            std::span<const std::uint32_t> tokens, bool bigram);

// What keeps requests of one engine apart from each other. Absent and empty differ. UTF-8.
struct RequestNamespace {
  std::optional<std::string_view> extra_key;   // LoRA id and the like.
  std::optional<std::string_view> cache_salt;  // Chosen by the user's tenant.
};

// The prior of a request's first page; nothing when neither part is there, so that hashes of plain
// requests never change.
std::optional<PageHash> namespace_seed(const RequestNamespace& parts);

// The same for published cache events, which keep an older scheme: it ignores extra_key. So the
// event hash of a salted request is not its page hash.
std::optional<PageHash> event_seed(std::optional<std::string_view> cache_salt);

// The number that cache events carry for a page: its first eight bytes, big-endian, signed.
std::int64_t event_hash(const PageHash& hash);

// Takes an engine's own block hash as a page hash: 32 bytes as they are, any other length from
// kOpaqueKeyBytesMin to kOpaqueKeyBytesMax under its SHA-256. Else `bad_argument`.
Result<PageHash> page_hash_from_key(std::span<const std::uint8_t> key);

// 64 lower-case hex digits. Reading takes upper case too; all else is `bad_argument`.
std::string page_hash_to_hex(const PageHash& hash);
Result<PageHash> page_hash_from_hex(std::string_view hex);

}  // namespace hc
