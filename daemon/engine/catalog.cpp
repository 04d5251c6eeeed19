// SPDX-License-Identifier: Apache-2.0
// catalog: page records, their table and the L2 eviction order.
#include "daemon/engine/catalog.h"

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

Catalog::Catalog(std::uint32_t pages_max, std::uint32_t parts_per_page)
    : parts_per_page_(parts_per_page),
      pages_(pages_max),
      parts_(std::size_t{pages_max} * parts_per_page),
      table_(pages_max),
      l2_order_(pages_max),
      unsettled_(static_cast<std::uint32_t>(parts_.size())),
      held_back_(static_cast<std::uint32_t>(parts_.size())) {
  HC_CHECK(pages_max > 0);
  HC_CHECK(parts_.size() < kNone32);
  free_pages_.reserve(pages_max);
  for (std::uint32_t page = pages_max; page-- > 0;) {
    free_pages_.push_back(page);
  }
}

// The hash is uniform already; the space is mixed in so that equal hashes of two spaces part.
std::uint64_t Catalog::key_hash(SpaceNo space, const PageHash& hash) {
  return hash.word(0) ^ (std::uint64_t{space.value} * 0x9E3779B97F4A7C15ULL);
}

PageId Catalog::find(SpaceNo space, const PageHash& hash) const {
  return table_.find(key_hash(space, hash), [&](PageId id) {
    const Page& page = pages_[id.value];
    return page.space == space && page.hash == hash;
  });
}

PageId Catalog::create(SpaceNo space, const PageHash& hash) {
  HC_CHECK(find(space, hash) == kNoPage);
  if (free_pages_.empty()) {
    return kNoPage;
  }
  const PageId id{free_pages_.back()};
  free_pages_.pop_back();
  Page& page = pages_[id.value];
  HC_CHECK(!page.in_use);
  page = Page{};
  page.in_use = true;
  page.space = space;
  page.hash = hash;
  table_.insert(key_hash(space, hash), id);
  return id;
}

void Catalog::unlink(PageId id) {
  Page& page = pages_[id.value];
  HC_CHECK(page.in_use);
  HC_CHECK(!page.doomed);
  table_.erase(key_hash(page.space, page.hash), id, [&](PageId other) {
    return key_hash(pages_[other.value].space, pages_[other.value].hash);
  });
  page.doomed = true;
  update_l2_order(id);
}

void Catalog::destroy(PageId id) {
  Page& page = pages_[id.value];
  HC_CHECK(page.in_use && page.doomed);
  HC_CHECK(page.holds == 0 && page.busy == 0);
  HC_CHECK(!has_any_part(id));
  HC_CHECK(!l2_order_.contains(id.value));
  for (std::uint32_t part = 0; part < parts_per_page_; ++part) {
    const PartRef at = ref(id, part);
    HC_CHECK(parts_[at.value].first_waiter == kNone32);
    HC_CHECK(!unsettled_.contains(at.value));
    HC_CHECK(!held_back_.contains(at.value));
    parts_[at.value] = Part{};
  }
  page = Page{};
  free_pages_.push_back(id.value);
}

void Catalog::hold_back(PartRef ref) {
  HC_CHECK(part(ref).l2 == L2State::resident && part(ref).l3 == L3State::absent);
  HC_CHECK(!unsettled_.contains(ref.value));
  held_back_.push_newest(ref.value);
  pages_held_back_ += page(page_of(ref)).parts_held_back++ == 0 ? 1U : 0U;
}

void Catalog::stop_holding_back(PartRef ref) {
  if (!held_back_.contains(ref.value)) {
    return;
  }
  held_back_.remove(ref.value);
  std::uint8_t& parts = page(page_of(ref)).parts_held_back;
  HC_CHECK(parts > 0);
  pages_held_back_ -= --parts == 0 ? 1U : 0U;
}

bool Catalog::has_resident_part(PageId page) const {
  for (std::uint32_t part = 0; part < parts_per_page_; ++part) {
    if (parts_[ref(page, part).value].l2 == L2State::resident) {
      return true;
    }
  }
  return false;
}

bool Catalog::has_stored_part(PageId page) const {
  for (std::uint32_t part = 0; part < parts_per_page_; ++part) {
    if (parts_[ref(page, part).value].l3 >= L3State::written) {
      return true;
    }
  }
  return false;
}

bool Catalog::has_any_part(PageId page) const {
  for (std::uint32_t part = 0; part < parts_per_page_; ++part) {
    const Part& at = parts_[ref(page, part).value];
    if (at.l2 != L2State::absent || at.l3 != L3State::absent) {
      return true;
    }
  }
  return false;
}

void Catalog::update_l2_order(PageId id) {
  const Page& page = pages_[id.value];
  const bool evictable =
      !page.doomed && (page.holds == 0 || HC_MUTANT(lease_ignored)) && page.busy == 0 &&
      has_resident_part(id);
  if (evictable == l2_order_.contains(id.value)) {
    return;
  }
  if (!evictable) {
    l2_order_.remove(id.value);
    return;
  }
  // It comes back at the place of its last access; nearly always close to the front.
  std::uint32_t newer = kNone32;
  std::uint32_t at = l2_order_.newest();
  for (int steps = 0; steps < 64 && at != kNone32; ++steps) {
    if (pages_[at].last_access <= page.last_access) {
      break;
    }
    newer = at;
    at = l2_order_.older_than(at);
  }
  l2_order_.insert_older_than(id.value, newer);
}

}  // namespace hc
