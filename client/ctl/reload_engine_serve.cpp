// SPDX-License-Identifier: Apache-2.0
// reload_engine_serve: one request: matched, offered, and in the end loaded, computed and stored.
#include <algorithm>

#include "client/ctl/reload_engine.h"
#include "proto/limits.h"
#include "proto/page_hash.h"

namespace hc {

namespace {

constexpr std::uint32_t kNoRow = 0;
// Of 64 operation slots; the group's reloads and releases, and a load, find the others.
constexpr std::size_t kStoresMax = 16;

std::uint32_t count_of(std::size_t pages) { return static_cast<std::uint32_t>(pages); }

}  // namespace

void ReloadEngine::list_pages(std::uint64_t request, std::size_t count) {
  const auto blocks = setup_.trace.blocks_of(request).first(count);
  pages_.assign(count, hicache_page{});
  for (std::size_t i = 0; i < count; ++i) {
    pages_[i].key = setup_.keys[blocks[i]].bytes.data();
    pages_[i].key_bytes = kSha256Bytes;
    pages_[i].row = kNoRow;
    pages_[i].owner = contents_.owner_of(blocks[i]);
  }
}

// Leaves every page of the request in pages_.
hicache_code ReloadEngine::match(std::uint64_t request, Match& out) {
  list_pages(request, setup_.trace.blocks_of(request).size());
  hicache_match found{};
  const hicache_code code =
      hicache_group_match(client_.group(), pages_.data(), pages_.size(), &found);
  out = {found.anchor, found.l1_pages, found.l2_pages};
  return code;
}

hicache_code ReloadEngine::lock(Waiting& at, hicache_anchor anchor) {
  const hicache_code code = hicache_group_lock(client_.group(), anchor);
  unlock(at);
  if (code == HICACHE_OK) {
    at.lock = anchor;
  }
  return code;
}

// A node that had to go took its locks along.
void ReloadEngine::unlock(Waiting& at) {
  if (at.lock) {
    static_cast<void>(hicache_group_unlock(client_.group(), *at.lock));
    at.lock.reset();
  }
}

hicache_code ReloadEngine::look(Waiting& at) {
  Match found;
  if (const hicache_code code = match(at.request, found); code != HICACHE_OK) {
    return code;
  }
  at.state = State::ready;
  at.known = found.pages();
  return found.pages() < pages_.size() ? offer(at, found) : HICACHE_OK;
}

// What one reload can bring: the limits of an operation and of the quota; for who waits for another
// request's, what the two have in common.
std::uint32_t ReloadEngine::bound_of(const Waiting& at, bool& is_joined) const {
  const auto blocks = setup_.trace.blocks_of(at.request).subspan(at.first);
  for (const Waiting& other : waiting_) {
    if (other.state != State::held || other.request == at.request) {
      continue;
    }
    const auto theirs = setup_.trace.blocks_of(other.request).subspan(other.first, other.bound);
    if (!theirs.empty() && theirs.front() == blocks.front()) {
      is_joined = true;
      const auto parts = std::mismatch(theirs.begin(), theirs.end(), blocks.begin(), blocks.end());
      return count_of(static_cast<std::size_t>(parts.first - theirs.begin()));
    }
  }
  is_joined = false;
  const auto& kinds = setup_.plan.space.kinds;
  const bool is_owned = std::any_of(kinds.begin(), kinds.end(), [](const KindSpec& kind) {
    return kind.placement == Placement::owned;
  });
  std::vector<std::uint64_t> used(setup_.plan.ranks, 0);
  std::uint32_t bound = 0;
  for (const std::uint32_t block : blocks.first(std::min<std::size_t>(blocks.size(),
                                                                      kPagesPerOpMax))) {
    if (++used[is_owned ? contents_.owner_of(block) : 0] > share_.plan.quota_pages) {
      break;
    }
    ++bound;
  }
  return bound;
}

hicache_code ReloadEngine::offer(Waiting& at, const Match& found) {
  hicache_miss miss{};
  miss.request = at.request;
  miss.anchor = found.anchor;
  miss.pages = pages_.data();
  miss.page_count = pages_.size();
  miss.first_page = found.pages();
  std::uint32_t decline = HICACHE_DECLINE_NONE;
  const hicache_code code = hicache_group_offer(client_.group(), &miss, &decline);
  if (code != HICACHE_OK) {
    return code;
  }
  HC_CHECK(decline < uniform_.declined.size());
  if (decline != HICACHE_DECLINE_NONE) {
    ++uniform_.declined[decline];
    return HICACHE_OK;
  }
  ++uniform_.held;
  at.first = found.pages();
  at.bound = bound_of(at, at.is_joined);
  at.state = State::held;
  ReloadEvent event;
  event.request = static_cast<std::uint32_t>(at.request);
  event.first = at.first;
  event.count = at.bound;
  event.joined = at.is_joined ? 1 : 0;
  offers_.push_back(event);
  return HICACHE_OK;
}

// A load needs rows for a moment, a store until it is settled. Stores that are not settled hold
// their pages in L2, and must leave reloads room there.
bool ReloadEngine::has_room(const Match& found, std::size_t blocks) const {
  const std::size_t computed = blocks - found.pages();
  const std::size_t pieces = (computed + share_.plan.store_pages - 1) / share_.plan.store_pages;
  const std::size_t loaded = std::min<std::size_t>(found.l2, kPagesPerOpMax);
  const bool has_slots = unsettled_.empty() || unsettled_.size() + pieces <= kStoresMax;
  const bool has_quota =
      unsettled_.empty() || unsettled_pages_ + computed <= share_.plan.unsettled_pages_max;
  return has_slots && has_quota && rows_.free() >= std::max(computed, loaded);
}

hicache_code ReloadEngine::serve(Waiting& at, bool& is_served) {
  Match found;
  hicache_code code = match(at.request, found);
  if (code != HICACHE_OK) {
    return code;
  }
  const std::size_t blocks = pages_.size();
  if (at.is_admitted && at.is_joined && found.pages() < blocks) {
    // It got what the other request had asked for; now for the rest.
    at.is_joined = false;
    at.brought = 0;
    at.known = std::max(at.known, found.pages());
    code = offer(at, found);
    if (code != HICACHE_OK || at.state == State::held) {
      return code;
    }
  }
  if (!has_room(found, blocks)) {
    return HICACHE_OK;
  }
  code = lock(at, found.anchor);
  if (code == HICACHE_OK) {
    code = bring_l2(at.request, found);
  }
  if (code == HICACHE_OK) {
    code = make_room_in_l1(count_of(blocks) - found.l1);
  }
  list_pages(at.request, blocks);
  if (code == HICACHE_OK) {
    code = hicache_group_fill_l1(client_.group(), pages_.data(), pages_.size());
  }
  if (code == HICACHE_OK) {
    code = store(at.request, found.pages());
  }
  unlock(at);
  count_served(at, found);
  is_served = true;
  is_idle_ = false;
  return code;
}

void ReloadEngine::count_served(const Waiting& at, const Match& found) {
  const auto blocks = count_of(setup_.trace.blocks_of(at.request).size());
  // What lies behind the first missing page, and only in L2, is there because it was reloaded.
  const std::uint32_t missed_from = at.is_admitted ? std::max(at.first, found.l1) : found.pages();
  const std::uint32_t reloaded = found.pages() - std::min(found.pages(), missed_from);
  ++uniform_.requests;
  uniform_.pages_referenced += blocks;
  uniform_.pages_l1 += found.l1;
  uniform_.pages_l2 += found.l2 - reloaded;
  uniform_.pages_reload += reloaded;
  uniform_.pages_computed += blocks - found.pages();
  ReloadEvent event;
  event.kind = ReloadEvent::Kind::served;
  event.request = static_cast<std::uint32_t>(at.request);
  // More than the reload brought: another request has stored it meanwhile.
  const bool is_its_own = at.is_admitted && found.pages() <= at.first + at.brought;
  event.first = is_its_own ? std::max(at.known, found.l1) : found.pages();
  event.count = found.pages();
  note(event);
}

// A page that this rank does not get is computed here; nobody else hears of it.
hicache_code ReloadEngine::bring_l2(std::uint64_t request, const Match& found) {
  const auto blocks = setup_.trace.blocks_of(request);
  std::uint32_t done = found.l1;
  while (done < found.pages()) {
    const std::uint32_t count =
        std::min({found.pages() - done, kPagesPerOpMax, rows_.free()});
    const std::vector<std::uint32_t> rows = rows_.take(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      contents_.spoil(*region_, rows[i]);
      pages_[done + i].row = rows[i];
    }
    std::uint32_t loaded = 0;
    const hicache_code code = client_.load({pages_.data() + done, count}, loaded);
    if (code != HICACHE_OK) {
      return code;
    }
    for (std::uint32_t i = 0; i < loaded; ++i) {
      contents_.check(*region_, rows[i], blocks[done + i], request, bytes_);
    }
    totals_.loaded_pages += loaded;
    totals_.load_misses += count - loaded;
    rows_.give_back(rows);
    note({ReloadEvent::Kind::load, static_cast<std::uint32_t>(request), done, count, 0});
    done += count;
  }
  return HICACHE_OK;
}

hicache_code ReloadEngine::make_room_in_l1(std::uint32_t pages) {
  const std::uint64_t wanted = client_.stats().l1_pages + pages;
  const std::uint64_t limit = share_.plan.l1_pages;
  if (wanted <= limit) {
    return HICACHE_OK;
  }
  std::uint32_t evicted = 0;
  const hicache_code code = hicache_group_evict_l1(
      client_.group(), static_cast<std::uint32_t>(wanted - limit), &evicted);
  const std::uint64_t left = wanted - limit - std::min<std::uint64_t>(wanted - limit, evicted);
  uniform_.l1_pages_over = std::max(uniform_.l1_pages_over, left);
  return code;
}

// From the tail to the head, so that in the daemon too the tail is older.
hicache_code ReloadEngine::store(std::uint64_t request, std::uint32_t first) {
  const auto blocks = setup_.trace.blocks_of(request);
  std::size_t end = blocks.size();
  while (end > first) {
    const std::size_t count = std::min<std::size_t>(share_.plan.store_pages, end - first);
    const std::size_t begin = end - count;
    const std::vector<std::uint32_t> rows = rows_.take(count);
    for (std::size_t i = 0; i < count; ++i) {
      contents_.fill(*region_, rows[i], blocks[begin + i]);
      pages_[begin + i].row = rows[i];
    }
    std::uint64_t store = 0;
    const hicache_code code = client_.store({pages_.data(), end}, begin, store);
    if (code != HICACHE_OK) {
      return code;
    }
    ++uniform_.stores;
    ReloadEvent event{ReloadEvent::Kind::store, static_cast<std::uint32_t>(request),
                      static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(count), 0};
    note(event);
    event.kind = ReloadEvent::Kind::settled;
    if (store != 0) {
      unsettled_pages_ += rows.size();
      unsettled_.emplace(store, Unsettled{std::move(rows), event});
    } else {
      ++uniform_.stores_unleased;
      rows_.give_back(rows);
      note(event);
    }
    end = begin;
  }
  return HICACHE_OK;
}

}  // namespace hc
