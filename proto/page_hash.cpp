// SPDX-License-Identifier: Apache-2.0
// page_hash: content hashes of pages, byte for byte what the engine's own storage layer computes.
//
// Owner thread: any; see the header. Invariant: no allocation of ours per page. (libcrypto
// 3.0 allocates its 112-byte state at every start of a message, and EVP has no way around that.)
#include "proto/page_hash.h"

#include <openssl/evp.h>

#include <algorithm>

#include "proto/limits.h"

namespace hc {
namespace {

constexpr std::uint8_t kWideTag = 0xFF;  // Makes a wide page's length odd: no narrow page has it.
constexpr std::uint8_t kAbsentTag = 0x00;
constexpr std::uint8_t kPresentTag = 0x01;
constexpr std::string_view kNamespaceDomain = "sglang-cache-namespace-v1";
constexpr std::string_view kEventSaltDomain{"sglang-cache-salt-v1\0", 21};  // The NUL is hashed.
constexpr std::string_view kHexDigits = "0123456789abcdef";

struct FreeDigest {
  void operator()(EVP_MD* digest) const { EVP_MD_free(digest); }
};
using DigestHandle = std::unique_ptr<EVP_MD, FreeDigest>;

// An explicit fetch, because an implicit one is repeated at every start of a message.
DigestHandle fetch_sha256() { return DigestHandle{EVP_MD_fetch(nullptr, "SHA256", nullptr)}; }

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Compilers turn this loop into one store on a little-endian machine.
template <typename Number>
void store_little_endian(Number value, std::uint8_t* to) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    to[i] = static_cast<std::uint8_t>(value >> (8 * i));
  }
}

// Gathers the bytes of a page, so that a page of usual size is one update of the hash: a call into
// libcrypto costs as much as hashing some dozens of bytes.
class PageBytes {
 public:
  explicit PageBytes(Sha256& sha) : sha_(sha) {}

  void put(std::span<const std::uint8_t> bytes) {
    HC_CHECK(bytes.size() <= buffer_.size());
    make_room(bytes.size());
    std::copy(bytes.begin(), bytes.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ += bytes.size();
  }

  // Units are put run by run: the room is asked for once per run, not once per id.
  template <typename Word, typename Token>
  void put_units(std::span<const Token> raw, bool bigram) {
    const std::size_t unit_bytes = sizeof(Word) * (bigram ? 2U : 1U);
    const std::size_t units = static_cast<std::size_t>(unit_count(raw.size(), bigram));
    std::size_t done = 0;
    while (done < units) {
      make_room(unit_bytes);
      const std::size_t run = std::min(units - done, (buffer_.size() - used_) / unit_bytes);
      HC_CHECK(run > 0);
      if (bigram) {
        put_pairs<Word>(raw.subspan(done, run + 1));
      } else {
        put_ids<Word>(raw.subspan(done, run));
      }
      done += run;
    }
  }

  Sha256Digest finish() {
    flush();
    return sha_.finish();
  }

 private:
  template <typename Word, typename Token>
  void put_ids(std::span<const Token> ids) {
    std::uint8_t* to = buffer_.data() + used_;
    for (const Token id : ids) {
      store_little_endian(static_cast<Word>(id), to);
      to += sizeof(Word);
    }
    used_ += ids.size() * sizeof(Word);
  }

  template <typename Word, typename Token>
  void put_pairs(std::span<const Token> ids) {
    std::uint8_t* to = buffer_.data() + used_;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      store_little_endian(static_cast<Word>(ids[i]), to);
      store_little_endian(static_cast<Word>(ids[i + 1]), to + sizeof(Word));
      to += 2 * sizeof(Word);
    }
    used_ += (ids.size() - 1) * 2 * sizeof(Word);
  }

  void make_room(std::size_t bytes) {
    if (buffer_.size() - used_ < bytes) {
      flush();
    }
  }

  void flush() {
    sha_.update(std::span<const std::uint8_t>(buffer_).first(used_));
    used_ = 0;
  }

  Sha256& sha_;
  std::size_t used_ = 0;
  std::array<std::uint8_t, 4096> buffer_;  // A wide bigram page of 64 units takes 1057 bytes.
};

template <typename Token>
Error token_out_of_range(std::span<const Token> raw, std::size_t first_index) {
  const auto bad = std::find_if(raw.begin(), raw.end(), [](Token id) { return id > kTokenIdMax; });
  HC_CHECK(bad != raw.end());
  const std::size_t index = first_index + static_cast<std::size_t>(bad - raw.begin());
  return make_error(Code::bad_argument, "tokens[" + std::to_string(index) + "] is " +
                                            std::to_string(*bad) + ", allowed 0.." +
                                            std::to_string(kTokenIdMax));
}

// Hashes the units that `raw` makes as one page; `first_index` is where it lies in the caller's
// tokens, for the error text.
template <typename Token>
Result<PageHash> hash_one(PageBytes& page, const PageHash* prior, std::span<const Token> raw,
                          bool bigram, std::size_t first_index) {
  std::uint64_t seen_bits = 0;
  for (const Token id : raw) {
    seen_bits |= id;
  }
  if (seen_bits > kTokenIdMax) {
    return token_out_of_range(raw, first_index);
  }
  if (prior != nullptr) {
    page.put(prior->bytes);
  }
  if (seen_bits > kNarrowTokenIdMax) {
    page.put({&kWideTag, 1});
    page.put_units<std::uint64_t>(raw, bigram);
  } else {
    page.put_units<std::uint32_t>(raw, bigram);
  }
  return PageHash{page.finish()};
}

template <typename Token>
Result<void> hash_pages_of(const std::optional<PageHash>& prior, std::span<const Token> tokens,
                           const PageHashOptions& options, std::vector<PageHash>& out) {
  out.clear();
  if (options.page_tokens < 1 || options.page_tokens > kPageTokensMax) {
    return make_error(Code::bad_argument, "page_tokens is " + std::to_string(options.page_tokens) +
                                              ", allowed 1.." + std::to_string(kPageTokensMax));
  }
  const std::uint64_t pages = page_count(tokens.size(), options);
  if (pages == 0) {
    return {};
  }
  out.reserve(static_cast<std::size_t>(pages));
  const std::size_t shared_ids = options.bigram ? 1 : 0;
  const PageHash* previous = prior ? &*prior : nullptr;
  Sha256 sha;
  PageBytes page{sha};
  for (std::size_t k = 0; k < pages; ++k) {
    const std::size_t first = k * options.page_tokens;
    const std::size_t raw_ids = std::min(options.page_tokens + shared_ids, tokens.size() - first);
    const auto raw = tokens.subspan(first, raw_ids);
    const auto hash = hash_one(page, previous, raw, options.bigram, first);
    if (!hash) {
      out.clear();
      return hash.error();
    }
    out.push_back(*hash);
    previous = &out.back();  // Stays valid: the reserve above is exact.
  }
  HC_CHECK(out.size() == pages);
  return {};
}

template <typename Token>
Result<PageHash> hash_units_of(const std::optional<PageHash>& prior, std::span<const Token> tokens,
                               bool bigram) {
  Sha256 sha;
  PageBytes page{sha};
  // A lone id makes no pair: it must not choose the wide form of a hash it is not part of.
  const auto raw = unit_count(tokens.size(), bigram) == 0 ? tokens.first(0) : tokens;
  return hash_one(page, prior ? &*prior : nullptr, raw, bigram, 0);
}

void put_namespace_part(Sha256& sha, std::optional<std::string_view> part) {
  if (!part) {
    sha.update({&kAbsentTag, 1});
    return;
  }
  std::array<std::uint8_t, 8> length{};
  store_little_endian(static_cast<std::uint64_t>(part->size()), length.data());
  sha.update({&kPresentTag, 1});
  sha.update(length);
  sha.update(bytes_of(*part));
}

// -1 for all that is no hex digit.
int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  if (digit >= 'a' && digit <= 'f') {
    return digit - 'a' + 10;
  }
  if (digit >= 'A' && digit <= 'F') {
    return digit - 'A' + 10;
  }
  return -1;
}

}  // namespace

void Sha256::FreeContext::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  HC_CHECK(context_ != nullptr);
  const DigestHandle digest = fetch_sha256();
  HC_CHECK(digest != nullptr);
  // The context takes its own reference to the digest.
  HC_CHECK(EVP_DigestInit_ex2(context_.get(), digest.get(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::uint8_t> bytes) {
  HC_CHECK(context_ != nullptr);
  HC_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::finish() {
  HC_CHECK(context_ != nullptr);
  Sha256Digest digest;
  unsigned int written = 0;
  HC_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &written) == 1);
  HC_CHECK(written == digest.size());
  HC_CHECK(EVP_DigestInit_ex2(context_.get(), nullptr, nullptr) == 1);
  return digest;
}

Sha256Digest sha256(std::span<const std::uint8_t> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.finish();
}

Result<void> check_sha256() {
  if (fetch_sha256() == nullptr) {
    return make_error(Code::unsupported,
                      "libcrypto offers no SHA-256 on this host; check its openssl.cnf");
  }
  return {};
}

Result<void> hash_pages(const std::optional<PageHash>& prior,
                        std::span<const std::uint64_t> tokens, const PageHashOptions& options,
                        std::vector<PageHash>& out) {
  return hash_pages_of(prior, tokens, options, out);
}

Result<void> hash_pages(const std::optional<PageHash>& prior,
                        std::span<const std::uint32_t> tokens, const PageHashOptions& options,
                        std::vector<PageHash>& out) {
  return hash_pages_of(prior, tokens, options, out);
}

Result<PageHash> hash_units(const std::optional<PageHash>& prior,
                            std::span<const std::uint64_t> tokens, bool bigram) {
  return hash_units_of(prior, tokens, bigram);
}

Result<PageHash> hash_units(const std::optional<PageHash>& prior,
                            std::span<const std::uint32_t> tokens, bool bigram) {
  return hash_units_of(prior, tokens, bigram);
}

std::optional<PageHash> namespace_seed(const RequestNamespace& parts) {
  if (!parts.extra_key && !parts.cache_salt) {
    return std::nullopt;
  }
  Sha256 sha;
  sha.update(bytes_of(kNamespaceDomain));
  put_namespace_part(sha, parts.extra_key);
  put_namespace_part(sha, parts.cache_salt);
  return PageHash{sha.finish()};
}

std::optional<PageHash> event_seed(std::optional<std::string_view> cache_salt) {
  if (!cache_salt) {
    return std::nullopt;
  }
  Sha256 sha;
  sha.update(bytes_of(kEventSaltDomain));
  sha.update(bytes_of(*cache_salt));
  return PageHash{sha.finish()};
}

std::int64_t event_hash(const PageHash& hash) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    number = (number << 8) | hash.bytes[i];
  }
  return static_cast<std::int64_t>(number);
}

Result<PageHash> page_hash_from_key(std::span<const std::uint8_t> key) {
  if (key.size() < kOpaqueKeyBytesMin || key.size() > kOpaqueKeyBytesMax) {
    return make_error(Code::bad_argument, "key is " + std::to_string(key.size()) +
                                              " bytes long, allowed " +
                                              std::to_string(kOpaqueKeyBytesMin) + ".." +
                                              std::to_string(kOpaqueKeyBytesMax));
  }
  PageHash hash;
  if (key.size() != hash.bytes.size()) {
    return PageHash{sha256(key)};
  }
  std::copy(key.begin(), key.end(), hash.bytes.begin());
  return hash;
}

std::string page_hash_to_hex(const PageHash& hash) {
  std::string hex;
  hex.reserve(kPageHashHexChars);
  for (const std::uint8_t byte : hash.bytes) {
    hex.push_back(kHexDigits[byte >> 4]);
    hex.push_back(kHexDigits[byte & 0x0F]);
  }
  return hex;
}

Result<PageHash> page_hash_from_hex(std::string_view hex) {
  if (hex.size() != kPageHashHexChars) {
    return make_error(Code::bad_argument, "page hash is " + std::to_string(hex.size()) +
                                              " characters long, allowed exactly " +
                                              std::to_string(kPageHashHexChars));
  }
  PageHash hash;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const int value = hex_value(hex[i]);
    if (value < 0) {
      // The byte is given as a number: it may be unprintable, and this line goes to a log.
      const int byte = static_cast<unsigned char>(hex[i]);
      return make_error(Code::bad_argument, "page hash has byte " + std::to_string(byte) +
                                                " at character " + std::to_string(i) +
                                                ", allowed 0-9, a-f and A-F");
    }
    std::uint8_t& into = hash.bytes[i / 2];
    into = static_cast<std::uint8_t>((into << 4) | value);
  }
  return hash;
}

}  // namespace hc
