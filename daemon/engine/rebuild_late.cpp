// SPDX-License-Identifier: Apache-2.0
// rebuild_late: more pages were found in the slots than there are records. Pages that were evicted
// are among them, and nothing tells them apart any more: those that were written last stay.
#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/engine/rebuild.h"
#include "daemon/engine/works.h"

namespace hc {

namespace {

constexpr int kVictimLooksMax = 64;

}  // namespace

// All blobs of a page stand together, the page whose newest blob is the newest one at the end.
void Rebuild::sort_late() {
  const auto key = [](const Found& found) {
    return std::pair<std::uint32_t, PageHash>{found.space.value, found.header.page_hash};
  };
  std::map<std::pair<std::uint32_t, PageHash>, std::uint64_t> newest;
  for (const Found& found : late_) {
    std::uint64_t& access = newest[key(found)];
    access = std::max(access, access_of(found.header.generation));
  }
  struct Place {
    std::uint64_t page_access;
    std::uint64_t access;
    std::size_t index;
  };
  std::vector<Place> places;
  places.reserve(late_.size());
  for (std::size_t i = 0; i < late_.size(); ++i) {
    places.push_back({newest.at(key(late_[i])), access_of(late_[i].header.generation), i});
  }
  std::sort(places.begin(), places.end(), [](const Place& one, const Place& other) {
    return std::tie(one.page_access, one.access, one.index) <
           std::tie(other.page_access, other.access, other.index);
  });
  std::vector<Found> sorted;
  sorted.reserve(late_.size());
  for (const Place& at : places) {
    sorted.push_back(late_[at.index]);
  }
  late_ = std::move(sorted);
  late_is_sorted_ = true;
}

// A page comes with its newest blob first: that is what it is worth.
void Rebuild::place_late() {
  if (!late_is_sorted_) {
    sort_late();
  }
  Core& core = works_.core;
  for (; late_left_ > 0 && !late_.empty(); --late_left_) {
    const Found found = late_.back();
    late_.pop_back();
    if (!stands(found)) {  // nobody gives way to it
      settle_free(found.at);
      continue;
    }
    const bool is_known = core.catalog->find(found.space, found.header.page_hash) != kNoPage;
    if (!is_known && !make_record(core.family_of(found.at.slab),
                                  access_of(found.header.generation))) {
      ++core.counters.slots_left_out;
      settle_free(found.at);
    } else if (!place(found)) {
      waiting_.push_back(found);
    }
  }
  core.moves += late_.empty() ? 1U : 0U;
}

// From the oldest page on disk, if that is older: it is the first one in the order of some slab.
bool Rebuild::make_record(const Family& family, std::uint64_t access) {
  Core& core = works_.core;
  if (works_.pages.records_from_memory(family, 1)) {
    return true;
  }
  std::uint64_t oldest = access;
  std::optional<std::pair<PageId, SlabId>> victim;
  for (const auto& slab : family.slabs) {
    if (!slab) {
      continue;
    }
    const LruList& order = core.slot_order.order(*slab);
    std::uint32_t slot = order.oldest();
    for (int looks = 0; looks < kVictimLooksMax && slot != kNone32; ++looks) {
      const PageId id = core.catalog->page_of(core.slot_order.owner(*slab, slot));
      const Page& page = core.catalog->page(id);
      if (page.holds == 0 && page.busy == 0) {
        if (page.last_access < oldest) {
          oldest = page.last_access;
          victim = {id, *slab};
        }
        break;
      }
      slot = order.newer_than(slot);
    }
  }
  if (!victim) {
    return false;
  }
  works_.spiller.evict(victim->first, victim->second, EvictionCause::record);
  return core.catalog->pages_free(family.number) > 0;
}

}  // namespace hc
