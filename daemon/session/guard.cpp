// SPDX-License-Identifier: Apache-2.0
// guard: every field of a request, each bound against limits or the session's registrations.
#include "daemon/session/guard.h"

#include <array>
#include <bit>
#include <cstring>

#include "proto/limits.h"
#include "proto/request_rules.h"
#include "proto/ring_layout.h"
#include "shm/shared_word.h"

namespace hc {

namespace {

constexpr std::size_t kPageWords = sizeof(PageEntry) / sizeof(std::uint64_t);

bool verb_has_pages(Verb verb) {
  switch (verb) {
    case Verb::store:
    case Verb::reload:
    case Verb::load:
    case Verb::pin:
    case Verb::free_object: return true;
    case Verb::none:
    case Verb::release:
    case Verb::flush:
    case Verb::cancel:
    case Verb::copied: return false;
  }
  return false;
}

// One read of the shared entry; only the copy is judged and used.
PageEntry copy_page(const std::uint8_t* shared) {
  std::array<std::uint64_t, kPageWords> words{};
  const auto* from = reinterpret_cast<const std::uint64_t*>(shared);
  for (std::size_t i = 0; i < kPageWords; ++i) {
    words[i] = load_relaxed(from[i]);
  }
  return std::bit_cast<PageEntry>(words);
}

bool head_is_valid(const RequestEntry& entry, const SpaceDescriptor& space) {
  const auto verb = static_cast<Verb>(entry.verb);
  const std::uint32_t kinds = (1U << space.kinds.size()) - 1;
  if (entry.deadline_ms == 0 || entry.deadline_ms > kDeadlineMsMax ||
      (entry.flags & ~flags_of(verb)) != 0 || (entry.kind_mask & ~kinds) != 0) {
    return false;
  }
  if (verb == Verb::store && (entry.ack < static_cast<std::uint8_t>(Ack::resident) ||
                              entry.ack > static_cast<std::uint8_t>(Ack::durable))) {
    return false;
  }
  if (!verb_has_pages(verb)) {
    return entry.page_count == 0;
  }
  return entry.page_count >= 1 && entry.page_count <= kPagesPerOpMax;
}

// Every wanted kind has a layout in the region, and every row is inside.
bool region_is_valid(const RequestEntry& entry, const EngineSession& session,
                     const SpaceDescriptor& space) {
  if (entry.region >= kRegionsPerSession || !session.regions[entry.region].present) {
    return false;
  }
  if ((entry.flags & kFlagAwaitEvent) != 0 && !session.regions[entry.region].has_events) {
    return false;
  }
  for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
    if (takes_part(entry.kind_mask, kind) && !session.regions[entry.region].layouts[kind].present) {
      return false;
    }
  }
  return true;
}

bool page_is_valid(const PageEntry& page, const RequestEntry& entry,
                   const EngineSession& session, const SpaceDescriptor& space) {
  const auto verb = static_cast<Verb>(entry.verb);
  if (page.reserved != 0 || page.owner >= space.world.shards()) {
    return false;
  }
  const bool moves_bytes = verb == Verb::store || verb == Verb::load;
  if (moves_bytes && page.row >= session.regions[entry.region].rows) {
    return false;
  }
  if (page.metadata_bytes == 0) {
    return true;
  }
  return verb == Verb::store && page.metadata_bytes <= kMetadataBytesMax &&
         page.metadata_offset <= kMetadataAreaBytes - page.metadata_bytes;
}

}  // namespace

bool entry_keeps_protocol(const RequestEntry& entry) {
  return entry.verb != 0 && entry.verb < kVerbs && entry.op_slot < kOpSlotsPerSession &&
         entry.reserved == 0 && entry.reserved2 == 0;
}

Judged judge_request(const RequestEntry& entry, const Region& client,
                     const EngineSession& session, const SpaceDescriptor& space) {
  Judged out;
  if (!entry_keeps_protocol(entry) || session.op_of_slot[entry.op_slot] != kNone32) {
    out.code = Code::protocol;
    return out;
  }
  const auto verb = static_cast<Verb>(entry.verb);
  out.request.entry = entry;
  const bool moves_bytes = verb == Verb::store || verb == Verb::load;
  if (!head_is_valid(entry, space) || (moves_bytes && !region_is_valid(entry, session, space))) {
    out.code = Code::bad_argument;
    return out;
  }
  bool metadata = false;
  std::uint64_t payload_bytes = 0;
  out.request.pages.reserve(entry.page_count);
  const std::uint8_t* area = client.bytes().data() + op_pages_offset(entry.op_slot);
  for (std::uint32_t i = 0; i < entry.page_count; ++i) {
    PageEntry page = copy_page(area + std::size_t{i} * sizeof(PageEntry));
    if (entry.owner_stride > 0) {
      page.owner = static_cast<std::uint16_t>(
          (std::uint64_t{entry.owner_base} + i / entry.owner_stride) % space.world.shards());
    }
    payload_bytes += page_payload_bytes(space, entry.kind_mask, page.owner, session.shard);
    if (!page_is_valid(page, entry, session, space) || payload_bytes > kOpBytesMax) {
      out.code = Code::bad_argument;
      return out;
    }
    metadata = metadata || page.metadata_bytes != 0;
    out.request.pages.push_back(page);
  }
  if (metadata) {
    const std::uint8_t* from = client.bytes().data() + op_metadata_offset(entry.op_slot);
    out.request.metadata.assign(from, from + kMetadataAreaBytes);
  }
  return out;
}

}  // namespace hc
