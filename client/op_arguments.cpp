// SPDX-License-Identifier: Apache-2.0
// op_arguments: one table of what each verb takes, then page by page.
#include "client/op_arguments.h"

#include <cstring>
#include <string>

#include "client/argument_error.h"
#include "proto/check.h"
#include "proto/limits.h"
#include "proto/page_hash.h"
#include "proto/request_rules.h"
#include "proto/ring_layout.h"

namespace hc {

namespace {

constexpr std::uint8_t kHintsKnown = kHintMayContinue | kHintOneShot;

const char* verb_name(Verb verb) {
  switch (verb) {
    case Verb::store:
      return "a store";
    case Verb::reload:
      return "a reload";
    case Verb::load:
      return "a load";
    case Verb::pin:
      return "a pin";
    case Verb::release:
      return "a release";
    case Verb::free_object:
      return "a free_object";
    case Verb::flush:
      return "a flush";
    case Verb::cancel:
      return "a cancel";
    case Verb::none:
      return "an exists_prefix";
    case Verb::copied:
      break;
  }
  return "an operation";
}

bool names_rows(Verb verb) {
  return verb == Verb::store || verb == Verb::load;
}

std::string page_field(std::size_t page, const char* name) {
  return "pages[" + std::to_string(page) + "]." + name;
}

Error page_error(std::size_t page, const char* name, std::uint64_t value, Bounds allowed) {
  return out_of_range(page_field(page, name), value, allowed);
}

// What check_page asks, without the words: exists_prefix asks it of thousands of pages.
bool page_is_good(const PageRules& rules, const hicache_page& page) {
  const bool named = page.key != nullptr && page.key_bytes >= kOpaqueKeyBytesMin &&
                     page.key_bytes <= kOpaqueKeyBytesMax &&
                     page.owner < rules.space.world.shards();
  const bool has_row = rules.region == nullptr || page.row < rules.region->rows;
  return named && has_row && (rules.verb != Verb::store || page.metadata_bytes == 0);
}

Result<void> check_page(const PageRules& rules, const hicache_page& page, std::size_t index) {
  if (page.key == nullptr) {
    return check_given(page_field(index, "key").c_str(), page.key);
  }
  if (page.key_bytes < kOpaqueKeyBytesMin || page.key_bytes > kOpaqueKeyBytesMax) {
    return page_error(index, "key_bytes", page.key_bytes, {kOpaqueKeyBytesMin, kOpaqueKeyBytesMax});
  }
  if (page.owner >= rules.space.world.shards()) {
    return page_error(index, "owner", page.owner, {0, rules.space.world.shards() - 1ULL});
  }
  if (rules.region != nullptr && page.row >= rules.region->rows) {
    return page_error(index, "row", page.row, {0, rules.region->rows - 1ULL});
  }
  if (rules.verb == Verb::store && page.metadata_bytes > kMetadataBytesMax) {
    return page_error(index, "metadata_bytes", page.metadata_bytes, {0, kMetadataBytesMax});
  }
  if (rules.verb == Verb::store && page.metadata_bytes > 0 && page.metadata == nullptr) {
    return check_given(page_field(index, "metadata").c_str(), page.metadata);
  }
  return {};
}

}  // namespace

Result<RequestEntry> check_op(Verb verb, const hicache_op* op, const SpaceDescriptor& space) {
  HC_TRY_VOID(check_given("op", op));
  HC_TRY_VOID(check_bounds("op.deadline_ms", op->deadline_ms, {1, kDeadlineMsMax}));
  if ((op->flags & ~std::uint32_t{flags_of(verb)}) != 0) {
    return make_error(Code::bad_argument, "op.flags = " + std::to_string(op->flags) + ": " +
                                              verb_name(verb) + " takes the bits of " +
                                              std::to_string(flags_of(verb)) + " only");
  }
  HC_TRY_VOID(check_bounds("op.ack", op->ack, {0, HICACHE_ACK_DURABLE}));
  HC_TRY_VOID(check_bounds("op.hint", op->hint, {0, kHintsKnown}));
  HC_TRY_VOID(check_bounds("op.kind_mask", op->kind_mask, {0, (1ULL << space.kinds.size()) - 1}));
  RequestEntry entry{};
  entry.verb = static_cast<std::uint8_t>(verb);
  entry.flags = static_cast<std::uint8_t>(op->flags);
  if (verb == Verb::store) {
    const auto ack = op->ack == HICACHE_ACK_NONE ? Ack::resident : static_cast<Ack>(op->ack);
    entry.ack = static_cast<std::uint8_t>(ack);
  }
  entry.hint = op->hint;
  entry.priority = op->priority;
  entry.kind_mask = op->kind_mask;
  entry.deadline_ms = op->deadline_ms;
  entry.region = names_rows(verb) ? op->region : 0;
  entry.client_data = op->user_data;
  return entry;
}

std::uint8_t effective_kinds(std::uint8_t kind_mask, const SpaceDescriptor& space) {
  return kind_mask != 0 ? kind_mask : static_cast<std::uint8_t>((1U << space.kinds.size()) - 1U);
}

Result<void> check_kinds_of_region(const PageRules& rules, std::uint32_t region) {
  HC_CHECK(rules.region != nullptr);
  const std::uint8_t wanted = effective_kinds(rules.kind_mask, rules.space);
  for (std::size_t kind = 0; kind < rules.space.kinds.size(); ++kind) {
    if (((wanted >> kind) & 1U) != 0 && ((rules.region->kind_mask >> kind) & 1U) == 0) {
      return make_error(Code::bad_argument, "op.kind_mask = " + std::to_string(rules.kind_mask) +
                                                " names kind " + std::to_string(kind) + " ('" +
                                                rules.space.kinds[kind].name + "'): region " +
                                                std::to_string(region) + " has layouts for mask " +
                                                std::to_string(rules.region->kind_mask));
    }
  }
  return {};
}

Result<void> check_pages(const PageRules& rules, const hicache_page* pages, std::size_t count) {
  const bool exists = rules.verb == Verb::none;
  HC_TRY_VOID(check_bounds("page_count", count,
                           {exists ? 0U : 1U, exists ? kExistsPagesMax : kPagesPerOpMax}));
  if (count > 0) {
    HC_TRY_VOID(check_given("pages", pages));
  }
  std::uint64_t metadata_bytes = 0;
  std::uint64_t payload_bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!page_is_good(rules, pages[i])) {
      HC_TRY_VOID(check_page(rules, pages[i], i));
    }
    metadata_bytes += pages[i].metadata_bytes;
    payload_bytes += exists ? 0
                            : page_payload_bytes(rules.space, rules.kind_mask, pages[i].owner,
                                                 rules.shard);
  }
  if (rules.verb == Verb::store && metadata_bytes > kMetadataAreaBytes) {
    return out_of_range("metadata_bytes of all pages", metadata_bytes, {0, kMetadataAreaBytes});
  }
  return check_bounds("payload bytes of all pages", payload_bytes, {0, kOpBytesMax});
}

void write_pages(const PageRules& rules, std::span<const hicache_page> pages,
                 std::span<std::uint8_t> area) {
  HC_CHECK(area.size() == kOpAreaBytes && pages.size() <= kPagesPerOpMax);
  std::uint32_t metadata_at = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const hicache_page& page = pages[i];
    const auto hash = page_hash_from_key({page.key, page.key_bytes});
    HC_CHECK(hash.has_value());
    PageEntry entry{};
    entry.hash = *hash;
    entry.row = names_rows(rules.verb) ? page.row : 0;
    entry.owner = page.owner;
    if (rules.verb == Verb::store && page.metadata_bytes > 0) {
      HC_CHECK(page.metadata_bytes <= kMetadataAreaBytes - metadata_at);
      entry.metadata_bytes = page.metadata_bytes;
      entry.metadata_offset = metadata_at;
      std::memcpy(area.data() + kOpPagesBytes + metadata_at, page.metadata, page.metadata_bytes);
      metadata_at += page.metadata_bytes;
    }
    std::memcpy(area.data() + i * sizeof entry, &entry, sizeof entry);
  }
}

}  // namespace hc
