// SPDX-License-Identifier: Apache-2.0
// client_reads: answers from shared memory, without the daemon and without a system call.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "client/argument_error.h"
#include "client/client.h"
#include "proto/page_hash.h"

namespace hc {

namespace {

// Pages looked up at once: enough for their cache misses to overlap, small enough for the stack.
constexpr std::size_t kLookBatch = 64;
// A view's token is attachment << kTokenIndexBits | index of the generation word.
constexpr int kTokenIndexBits = 38;

struct PageQuestion {
  const PartSelector& parts;
  std::span<const hicache_page> pages;
  OwnedParts owned;
};

void scan_pages(const StatusTableReader& table, const PageQuestion& question, PrefixScan& scan) {
  std::array<PageHash, kLookBatch> hashes;
  std::array<PageStatus, kLookBatch> found;
  bool more = true;
  for (std::size_t at = 0; at < question.pages.size() && more; at += kLookBatch) {
    const auto batch = question.pages.subspan(at, std::min(kLookBatch, question.pages.size() - at));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].key_bytes == sizeof hashes[i].bytes) {
        std::memcpy(hashes[i].bytes.data(), batch[i].key, sizeof hashes[i].bytes);
        continue;
      }
      const auto hash = page_hash_from_key({batch[i].key, batch[i].key_bytes});
      HC_CHECK(hash.has_value());
      hashes[i] = *hash;
    }
    table.lookup_many({hashes.data(), batch.size()}, {found.data(), batch.size()});
    for (std::size_t i = 0; i < batch.size() && more; ++i) {
      more = scan.add(question.parts.bits_of(found[i], batch[i].owner, question.owned));
    }
  }
}

}  // namespace

Result<void> Client::exists_prefix(Pages pages, OwnedParts owned, hicache_prefix& out) {
  // Neither the judging nor the lookups hold the mutex: millions of pages would hold up every other
  // call, and they need nothing that changes. Of the space only the weight version ever does.
  HC_TRY_VOID(check_pages(rules_of(Verb::none, 0), pages.data, pages.count));
  std::shared_ptr<const StatusTableReader> table;
  std::unique_ptr<PrefixScan> scan;
  {
    const Lock lock(mutex_);
    HC_TRY_VOID(check_data(true));
    table = session_->status_table();
    scan = std::move(spare_scan_);
  }
  if (scan == nullptr) {
    scan = std::make_unique<PrefixScan>(plan_.space);
  }
  scan->clear();
  scan_pages(*table, PageQuestion{parts_, {pages.data, pages.count}, owned}, *scan);
  const PrefixAnswer answer = scan->answer();
  const Lock lock(mutex_);
  spare_scan_ = std::move(scan);
  HC_TRY_VOID(check_data(true));
  if (session_->status_table() != table) {
    return make_error(Code::busy, "the space was switched, or attached again, meanwhile");
  }
  out.usable_pages = answer.usable;
  out.resident_pages = answer.resident;
  out.durable_pages = answer.durable;
  std::copy(answer.kinds.begin(), answer.kinds.end(), out.kind_pages);
  return {};
}

Result<hicache_view> Client::lease_view(std::uint64_t handle, std::uint32_t page,
                                        std::uint32_t kind) {
  const Lock lock(mutex_);
  const Lease* const lease = leases_.find(handle);
  if (lease == nullptr || lease->given_up) {
    return make_error(Code::bad_argument,
                      "lease = " + std::to_string(handle) + ": must be a lease that is held");
  }
  if (!lease->alive) {
    return make_error(Code::not_found,
                      "lease = " + std::to_string(handle) + " has ended with its session or space");
  }
  if (page >= lease->page_count) {
    return out_of_range("page", page, {0, lease->page_count - 1ULL});
  }
  if (kind >= lease->kind_count) {
    return out_of_range("kind", kind, {0, lease->kind_count - 1ULL});
  }
  hicache_view view{};
  view.size_bytes = plan_.space.kinds[kind].payload_bytes;
  const FrameRef& ref = lease->frames[std::size_t{page} * lease->kind_count + kind];
  if (ref.frame == kNone32) {
    return view;
  }
  const auto place = lease->arenas->find(static_cast<std::uint16_t>(kind), ref.frame);
  if (!place) {
    return make_error(Code::not_found, "frame " + std::to_string(ref.frame) +
                                           " lies in no arena that is mapped here");
  }
  view.data = place->payload;
  view.generation = ref.generation;
  view.token = std::uint64_t{lease->attachment} << kTokenIndexBits | place->generation_index;
  return view;
}

bool Client::view_intact(const hicache_view& view) {
  const Lock lock(mutex_);
  const std::uint64_t attachment = view.token >> kTokenIndexBits;
  if (!attached() || attachment < first_attachment_ || attachment > session_->attachment()) {
    // Nobody keeps the generations of a session that is over, unless another goes on with them.
    return false;
  }
  const std::uint64_t index = view.token & ((1ULL << kTokenIndexBits) - 1);
  return generation_is_whole(view.generation) &&
         session_->generations().unchanged(index, view.generation);
}

}  // namespace hc
