// SPDX-License-Identifier: Apache-2.0
// page_hash_test: laws of page hashes (chains, slices, widths) and the refusal of bad input.
#include "proto/page_hash.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/limits.h"
#include "support/catch.h"
#include "unit/proto/page_hash_model.h"

namespace hc::page_hash_test {
namespace {

// std::mt19937_64 is defined to the bit; the standard distributions are not, so none is used.
Ids random_ids(std::mt19937_64& random, std::size_t count, std::uint64_t wide_in) {
  Ids ids(count);
  for (std::uint64_t& id : ids) {
    const bool wide = wide_in != 0 && random() % wide_in == 0;
    id = wide ? (random() >> 1) : (random() & 0xFFFFFFFFULL);
  }
  return ids;
}

void require_same_in_both_widths(const Prior& prior, const Ids& ids,
                                 const PageHashOptions& options) {
  std::vector<std::uint32_t> narrow;
  for (const std::uint64_t id : ids) {
    narrow.push_back(static_cast<std::uint32_t>(id));
  }
  Hashes out;
  REQUIRE(hash_pages(prior, std::span<const std::uint32_t>(narrow), options, out));
  CHECK(out == pages(prior, ids, options));
  auto whole = hash_units(prior, std::span<const std::uint32_t>(narrow), options.bigram);
  REQUIRE(whole);
  CHECK(*whole == units(prior, ids, options.bigram));
}

void require_error(const Error& error, std::string_view text) {
  CHECK(error.code == Code::bad_argument);
  CHECK(error.message() == text);
}

}  // namespace

TEST_CASE("An id that two bigram pages share makes both of them wide") {
  const std::uint64_t big = 1ULL << 32;
  const Ids raw{1, 2, big, 4, 5};
  const PageHash first = model_page(kNoPrior, Ids{1, 2, 2, big});
  const PageHash second = model_page(first, Ids{big, 4, 4, 5});
  CHECK(pages(kNoPrior, raw, {.page_tokens = 2, .bigram = true}) == Hashes{first, second});
}

TEST_CASE("Batched pages equal the model that hashes byte by byte, whatever size and width") {
  std::mt19937_64 random(20250817);
  for (const std::uint32_t page_tokens : {1U, 2U, 3U, 16U, 64U, 255U, 256U, 509U, 1024U, 2051U}) {
    for (const bool bigram : {false, true}) {
      for (const std::uint64_t wide_in : {0ULL, 1ULL, 40ULL}) {
        const bool tail = random() % 2 == 0;
        const PageHashOptions options{
            .page_tokens = page_tokens, .bigram = bigram, .include_short_tail = tail};
        const std::size_t id_count = page_tokens * 3 + random() % page_tokens;
        const Ids ids = random_ids(random, id_count, wide_in);
        const Prior prior =
            random() % 2 == 0 ? kNoPrior : Prior(units(kNoPrior, {random() & 0xFFFF}));
        CAPTURE(page_tokens, bigram, wide_in, tail, prior.has_value());
        CHECK(pages(prior, ids, options) == model_pages(prior, ids, options));
        CHECK(units(prior, ids, bigram) == model_page(prior, model_flatten(ids, bigram)));
      }
    }
  }
}

TEST_CASE("32-bit and 64-bit token buffers give the same hashes") {
  std::mt19937_64 random(7);
  for (const std::size_t count : {0U, 1U, 2U, 63U, 64U, 65U, 1000U}) {
    for (const bool bigram : {false, true}) {
      CAPTURE(count, bigram);
      require_same_in_both_widths(kNoPrior, random_ids(random, count, 0),
                                  {.page_tokens = 64, .bigram = bigram});
      require_same_in_both_widths(from_hex(kS3), random_ids(random, count, 0),
                                  {.page_tokens = 7, .bigram = bigram, .include_short_tail = true});
    }
  }
}

TEST_CASE("The number of pages is floor(N / ps), of bigrams floor((N - 1) / ps)") {
  struct Row {
    std::uint64_t raw_ids;
    std::uint64_t plain;
    std::uint64_t bigram;
    std::uint64_t plain_with_tail;
    std::uint64_t bigram_with_tail;
  };
  const std::vector<Row> rows{{0, 0, 0, 0, 0}, {1, 0, 0, 1, 0}, {3, 0, 0, 1, 1}, {4, 1, 0, 1, 1},
                              {5, 1, 1, 2, 1}, {8, 2, 1, 2, 2}, {9, 2, 2, 3, 2}, {10, 2, 2, 3, 3}};
  for (const Row& row : rows) {
    for (const bool bigram : {false, true}) {
      const PageHashOptions full{.page_tokens = 4, .bigram = bigram};
      const PageHashOptions tail{.page_tokens = 4, .bigram = bigram, .include_short_tail = true};
      CAPTURE(row.raw_ids, bigram);
      CHECK(page_count(row.raw_ids, full) == (bigram ? row.bigram : row.plain));
      CHECK(page_count(row.raw_ids, tail) ==
            (bigram ? row.bigram_with_tail : row.plain_with_tail));
      CHECK(pages(kNoPrior, range(0, row.raw_ids), full).size() ==
            (bigram ? row.bigram : row.plain));
      CHECK(pages(kNoPrior, range(0, row.raw_ids), tail).size() ==
            (bigram ? row.bigram_with_tail : row.plain_with_tail));
    }
  }
  CHECK(page_count(100, {.page_tokens = 0}) == 0);
}

TEST_CASE("A chain from any anchor equals the chain from the root") {
  std::mt19937_64 random(99);
  for (int round = 0; round < 60; ++round) {
    const PageHashOptions options{.page_tokens = static_cast<std::uint32_t>(1 + random() % 70),
                                  .bigram = random() % 2 == 0};
    const std::size_t id_count = random() % 700;  // Draws are statements: their order is fixed.
    const std::uint64_t wide_in = random() % 2 == 0 ? 0 : 50;
    const Ids ids = random_ids(random, id_count, wide_in);
    const Prior seed = round % 3 == 0 ? namespace_seed({"lora", std::nullopt}) : kNoPrior;
    const Hashes root = pages(seed, ids, options);
    CAPTURE(round, options.page_tokens, options.bigram, ids.size());
    for (std::size_t split = 1; split <= root.size(); ++split) {
      const Hashes upper(root.begin(), root.begin() + static_cast<std::ptrdiff_t>(split));
      const Hashes lower(root.begin() + static_cast<std::ptrdiff_t>(split), root.end());
      const std::size_t first = split * options.page_tokens;
      const std::size_t upper_end = first + (options.bigram ? 1 : 0);
      REQUIRE(pages(seed, slice(ids, 0, upper_end), options) == upper);
      REQUIRE(pages(upper.back(), slice(ids, first, ids.size()), options) == lower);
    }
  }
}

TEST_CASE("Slices of bigrams are the bigrams of slices one id longer, hash by hash") {
  std::mt19937_64 random(40);
  const Ids raw = random_ids(random, 40, 0);
  const Ids all_pairs = model_flatten(raw, true);
  const PageHashOptions unit_pages{.page_tokens = 1, .bigram = true};
  const Hashes root = pages(kNoPrior, raw, unit_pages);
  REQUIRE(root.size() == 39);
  for (std::size_t a = 0; a <= root.size(); ++a) {
    for (std::size_t b = a; b <= root.size(); ++b) {
      CAPTURE(a, b);
      const std::size_t raw_end = b > a ? b + 1 : a;
      const auto raw_slice = slice(raw, a, raw_end);
      REQUIRE(unit_count(raw_slice.size(), true) == b - a);
      // The identity itself: the units hashed are pairs a..b-1 of the whole prompt.
      const Ids slice_ids(raw_slice.begin(), raw_slice.end());
      REQUIRE(units(kNoPrior, slice_ids, true) ==
              model_page(kNoPrior, slice(all_pairs, 2 * a, 2 * b)));
      // What it is for: a suffix hashed from its anchor continues the chain from the root.
      const Prior anchor = a == 0 ? kNoPrior : Prior(root[a - 1]);
      const Hashes expected(root.begin() + static_cast<std::ptrdiff_t>(a),
                            root.begin() + static_cast<std::ptrdiff_t>(b));
      REQUIRE(pages(anchor, raw_slice, unit_pages) == expected);
    }
  }
}

TEST_CASE("A page size out of range is refused with its value and range") {
  Hashes out(3);
  const Ids ids = range(0, 10);
  const auto zero = hash_pages(kNoPrior, std::span<const std::uint64_t>(ids), {}, out);
  REQUIRE_FALSE(zero);
  require_error(zero.error(), "page_tokens is 0, allowed 1..65536");
  CHECK(out.empty());
  const PageHashOptions too_big{.page_tokens = kPageTokensMax + 1};
  const auto big = hash_pages(kNoPrior, std::span<const std::uint64_t>(ids), too_big, out);
  REQUIRE_FALSE(big);
  require_error(big.error(), "page_tokens is 65537, allowed 1..65536");
  CHECK(pages(kNoPrior, ids, {.page_tokens = kPageTokensMax}).empty());
}

TEST_CASE("A negative id is refused by place and value, but only where it would be hashed") {
  const auto minus_one = static_cast<std::uint64_t>(std::int64_t{-1});
  for (const bool bigram : {false, true}) {
    CAPTURE(bigram);
    const PageHashOptions options{.page_tokens = 4, .bigram = bigram};
    Ids ids = range(1, 12);
    Hashes out;
    ids[6] = minus_one;
    const auto hashed = hash_pages(kNoPrior, std::span<const std::uint64_t>(ids), options, out);
    REQUIRE_FALSE(hashed);
    require_error(hashed.error(),
                  "tokens[6] is 18446744073709551615, allowed 0..9223372036854775807");
    CHECK(out.empty());

    ids[6] = 7;
    ids[10] = minus_one;
    CHECK(pages(kNoPrior, ids, options) == pages(kNoPrior, range(1, 12), options));
  }
  const Ids just_above{0, 0, 0, kTokenIdMax + 1};
  const auto whole = hash_units(kNoPrior, std::span<const std::uint64_t>(just_above), false);
  REQUIRE_FALSE(whole);
  require_error(whole.error(),
                "tokens[3] is 9223372036854775808, allowed 0..9223372036854775807");
  CHECK(units(kNoPrior, {kTokenIdMax}) == model_page(kNoPrior, Ids{kTokenIdMax}));
}

TEST_CASE("A lone id makes no bigram and leaves no trace in the hash") {
  CHECK(units(kNoPrior, {1ULL << 40}, true) == units(kNoPrior, {}, true));
  CHECK(units(from_hex(kS3), {5}, true) == units(from_hex(kS3), {}));
}

TEST_CASE("The result vector is replaced, not appended to") {
  Hashes out(5);
  const Ids ids = range(1, 9);
  REQUIRE(hash_pages(kNoPrior, std::span<const std::uint64_t>(ids), kPlain4, out));
  CHECK(out.size() == 2);
  REQUIRE(hash_pages(kNoPrior, std::span<const std::uint64_t>(), kPlain4, out));
  CHECK(out.empty());
}

TEST_CASE("An opaque key of 32 bytes is a page hash as it is, other lengths go under SHA-256") {
  std::vector<std::uint8_t> bytes(64);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  const std::span<const std::uint8_t> all(bytes);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    CAPTURE(length);
    const auto hash = page_hash_from_key(all.first(length));
    if (length < 16 || length > 36) {
      REQUIRE_FALSE(hash);
      require_error(hash.error(),
                    "key is " + std::to_string(length) + " bytes long, allowed 16..36");
    } else if (length == 32) {
      REQUIRE(hash);
      CHECK(std::equal(hash->bytes.begin(), hash->bytes.end(), bytes.begin()));
    } else {
      REQUIRE(hash);
      CHECK(hash->bytes == sha256(all.first(length)));
    }
  }
  CHECK(*page_hash_from_key(all.first(16)) ==
        from_hex("be45cb2605bf36bebde684841a28f0fd43c69850a3dce5fedba69928ee3a8991"));
  CHECK(*page_hash_from_key(all.first(36)) ==
        from_hex("5d7e2d9b1dcbc85e7c890036a2cf2f9fe7b66554f2df08cec6aa9c0a25c99c21"));
}

TEST_CASE("A page hash survives its hex form, in either case of letters") {
  CHECK(page_hash_to_hex(from_hex(kS3)) == kS3);
  CHECK(page_hash_to_hex(PageHash{}) == std::string(64, '0'));
  std::string upper = kS3;
  for (char& digit : upper) {
    digit = digit >= 'a' ? static_cast<char>(digit - 'a' + 'A') : digit;
  }
  CHECK(from_hex(upper) == from_hex(kS3));
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    const PageHash hash = units(kNoPrior, {random() >> 1});
    CHECK(from_hex(page_hash_to_hex(hash)) == hash);
  }
}

TEST_CASE("Hex text that is no page hash is refused by length or by character") {
  for (const std::size_t length : {0U, 1U, 63U, 65U, 128U}) {
    const auto hash = page_hash_from_hex(std::string(length, 'a'));
    REQUIRE_FALSE(hash);
    require_error(hash.error(), "page hash is " + std::to_string(length) +
                                    " characters long, allowed exactly 64");
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char letter = static_cast<char>(byte);
    const bool is_digit = std::string_view("0123456789abcdefABCDEF").find(letter) !=
                          std::string_view::npos;
    for (const std::size_t at : {0U, 31U, 63U}) {
      CAPTURE(byte, at);
      std::string hex = kS3;
      hex[at] = letter;
      const auto hash = page_hash_from_hex(hex);
      REQUIRE(hash.has_value() == is_digit);
      if (!is_digit) {
        require_error(hash.error(), "page hash has byte " + std::to_string(byte) +
                                        " at character " + std::to_string(at) +
                                        ", allowed 0-9, a-f and A-F");
      }
    }
  }
}

}  // namespace hc::page_hash_test
