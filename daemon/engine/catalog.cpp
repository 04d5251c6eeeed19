// SPDX-License-Identifier: Apache-2.0
// catalog: page records, their table and the L2 eviction order.
#include "daemon/engine/catalog.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

void Catalog::add_family(std::uint32_t pages_max, std::uint32_t parts_per_page) {
  HC_CHECK(pages_max > 0 && parts_per_page > 0);
  HC_CHECK(parts_.size() + std::uint64_t{pages_max} * parts_per_page < kNone32);
  const auto first_page = static_cast<std::uint32_t>(pages_.size());
  Records records{first_page,     static_cast<std::uint32_t>(parts_.size()), pages_max,
                  parts_per_page, {}, LruList(pages_max, first_page)};
  const FamilyNo number{families()};
  pages_.resize(pages_.size() + pages_max);
  parts_.resize(parts_.size() + std::size_t{pages_max} * parts_per_page);
  unsettled_.grow(static_cast<std::uint32_t>(parts_.size()));
  held_back_.grow(static_cast<std::uint32_t>(parts_.size()));
  records.free_pages.reserve(pages_max);
  for (std::uint32_t page = first_page + pages_max; page-- > first_page;) {
    pages_[page].family = number;
    records.free_pages.push_back(page);
  }
  families_.push_back(std::move(records));
  table_ = PageTable(this->pages_max());
  for (std::uint32_t page = 0; page < first_page; ++page) {
    if (pages_[page].in_use && !pages_[page].doomed) {
      table_.insert(key_hash(pages_[page].space, pages_[page].hash), PageId{page});
    }
  }
}

bool Catalog::empty() const {
  return std::all_of(families_.begin(), families_.end(), [](const Records& records) {
    return records.free_pages.size() == records.pages;
  });
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

PageId Catalog::create(FamilyNo family, SpaceNo space, const PageHash& hash) {
  HC_CHECK(find(space, hash) == kNoPage);
  HC_CHECK(family.value < families_.size());
  std::vector<std::uint32_t>& free_pages = families_[family.value].free_pages;
  if (free_pages.empty()) {
    return kNoPage;
  }
  const PageId id{free_pages.back()};
  free_pages.pop_back();
  Page& page = pages_[id.value];
  HC_CHECK(!page.in_use);
  HC_CHECK(page.family == family);
  page = Page{};
  page.family = family;
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
  const FamilyNo family = page.family;
  HC_CHECK(!l2_order(family).contains(id.value));
  for (std::uint32_t part = 0; part < parts_per_page(id); ++part) {
    const PartRef at = ref(id, part);
    HC_CHECK(parts_[at.value].first_waiter == kNone32);
    HC_CHECK(!unsettled_.contains(at.value));
    HC_CHECK(!held_back_.contains(at.value));
    parts_[at.value] = Part{};
  }
  page = Page{};
  page.family = family;
  families_[family.value].free_pages.push_back(id.value);
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
  for (std::uint32_t part = 0; part < parts_per_page(page); ++part) {
    if (parts_[ref(page, part).value].l2 == L2State::resident) {
      return true;
    }
  }
  return false;
}

bool Catalog::has_stored_part(PageId page) const {
  for (std::uint32_t part = 0; part < parts_per_page(page); ++part) {
    if (parts_[ref(page, part).value].l3 >= L3State::written) {
      return true;
    }
  }
  return false;
}

bool Catalog::has_any_part(PageId page) const {
  for (std::uint32_t part = 0; part < parts_per_page(page); ++part) {
    const Part& at = parts_[ref(page, part).value];
    if (at.l2 != L2State::absent || at.l3 != L3State::absent) {
      return true;
    }
  }
  return false;
}

void Catalog::update_l2_order(PageId id) {
  const Page& page = pages_[id.value];
  LruList& order = l2_order(page.family);
  const bool evictable =
      !page.doomed && (page.holds == 0 || HC_MUTANT(lease_ignored)) && page.busy == 0 &&
      has_resident_part(id);
  if (evictable == order.contains(id.value)) {
    return;
  }
  if (!evictable) {
    order.remove(id.value);
    return;
  }
  // It comes back at the place of its last access; nearly always close to the front.
  std::uint32_t newer = kNone32;
  std::uint32_t at = order.newest();
  for (int steps = 0; steps < 64 && at != kNone32; ++steps) {
    if (pages_[at].last_access <= page.last_access) {
      break;
    }
    newer = at;
    at = order.older_than(at);
  }
  order.insert_older_than(id.value, newer);
}

}  // namespace hc
