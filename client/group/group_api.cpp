// SPDX-License-Identifier: Apache-2.0
// group_api: the functions of hicache_group.h: pointers judged, exceptions stopped, errors kept per
// thread.
//
// Owner thread: the engine's scheduler. Invariants: no exception leaves a function; on failure the
// output is zero.
#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "client/argument_error.h"
#include "client/group/reload_group.h"
#include "client/hicache_group.h"
#include "client/last_error.h"

struct hicache_group {
  hicache_client* client;
  std::unique_ptr<hc::ReloadGroup> group;
  std::vector<hicache_admit> admits;
  std::vector<hicache_recompute> recomputes;
  std::vector<hicache_settled> stores;
};

namespace {

using hc::Code;
using hc::PageHash;
using hc::ReloadGroup;
using hc::Result;

static_assert(HICACHE_DECLINE_FULL == static_cast<int>(hc::Decline::full));
static_assert(HICACHE_RECOMPUTE_DIVERGED == static_cast<int>(hc::Recompute::diverged));
static_assert(HICACHE_AGREE_HOOK == static_cast<int>(hc::AgreementKind::hook));

template <typename Body>
hicache_code guarded_group(Body&& body) {
  try {
    const Result<void> result = body();
    return result ? HICACHE_OK : hc::fail(result.error());
  } catch (const std::bad_alloc&) {
    return hc::fail(Code::no_space, "out of memory");
  } catch (const std::exception& caught) {
    return hc::fail(Code::io_error, caught.what());
  }
}

template <typename Body>
hicache_code on_group(hicache_group* handle, Body&& body) {
  if (handle == nullptr) {
    return hc::fail(Code::bad_argument, "group = NULL: must be given");
  }
  if (handle->client->client->in_child()) {
    return hc::fail(Code::refused, "a forked child must not use the group of its parent");
  }
  return guarded_group([&] { return body(*handle->group); });
}

// Keys and owners of pages that hc::check_pages has judged.
struct Path {
  std::vector<PageHash> hashes;
  std::vector<std::uint16_t> owners;
  hc::PageRun run() const { return {hashes, owners}; }
};

Result<Path> read_path(hicache_group* handle, const hicache_page* pages, std::size_t count) {
  if (count == 0) {
    return Path{};
  }
  const hc::OpenPlan& plan = handle->client->client->plan();
  HC_TRY_VOID(hc::check_pages({plan.space, plan.shard, hc::Verb::none, 0, nullptr}, pages, count));
  Path out;
  out.hashes.reserve(count);
  out.owners.reserve(count);
  const std::uint32_t owners = handle->group->quota().owners();
  for (std::size_t i = 0; i < count; ++i) {
    out.hashes.push_back(*hc::page_hash_from_key({pages[i].key, pages[i].key_bytes}));
    out.owners.push_back(owners == 1 ? std::uint16_t{0} : pages[i].owner);
  }
  return out;
}

hc::AnchorId anchor_of(hicache_anchor from) { return {from.node, from.use}; }

Result<void> check_anchor(ReloadGroup& group, hicache_anchor anchor) {
  if (group.tree().is_live(anchor_of(anchor))) {
    return {};
  }
  return hc::make_error(Code::not_found, "anchor.node = " + std::to_string(anchor.node) +
                                             ", use = " + std::to_string(anchor.use) +
                                             ": has gone; match the request again");
}

Result<hc::Suffix> read_suffix(hicache_group* handle, const hicache_miss& miss) {
  HC_TRY_VOID(hc::check_bounds("miss.first_page", miss.first_page, {0, miss.page_count}));
  if (miss.token_count > 0) {
    HC_TRY_VOID(hc::check_given("miss.tokens", miss.tokens));
  }
  const hc::SpaceDescriptor& space = handle->client->client->plan().space;
  const std::uint64_t wanted = std::uint64_t{space.page_tokens} + (space.bigram ? 1U : 0U);
  if (miss.token_count != 0 && miss.token_count != wanted) {
    return hc::make_error(Code::bad_argument,
                          "miss.token_count = " + std::to_string(miss.token_count) +
                              ": must be 0 or " + std::to_string(wanted) + ", one page");
  }
  auto path = read_path(handle, miss.pages, miss.page_count);
  HC_TRY(path);
  hc::Suffix out;
  out.anchor = anchor_of(miss.anchor);
  const auto first = static_cast<std::ptrdiff_t>(miss.first_page);
  out.hashes.assign(path->hashes.begin() + first, path->hashes.end());
  out.owners.assign(path->owners.begin() + first, path->owners.end());
  out.first_tokens.assign(miss.tokens, miss.tokens + miss.token_count);
  if (!out.hashes.empty()) {
    out.anchor_hash = handle->group->tree().look(out.anchor, out.hashes.front()).live_hash;
  }
  return out;
}

void fill(hicache_group& handle, bool reduced, hicache_decisions& out) {
  const hc::ReloadDecisions& from = handle.group->decisions();
  handle.admits.clear();
  handle.recomputes.clear();
  handle.stores.clear();
  for (const auto& admit : from.admits) {
    handle.admits.push_back({admit.request.value, admit.pages, 0});
  }
  for (const auto& drop : from.recomputes) {
    handle.recomputes.push_back(
        {drop.request.value, static_cast<std::uint32_t>(drop.reason), 0});
  }
  for (const auto& settled : from.stores) {
    handle.stores.push_back({settled.store, settled.durable ? 1U : 0U, 0});
  }
  out.admits = handle.admits.data();
  out.admit_count = handle.admits.size();
  out.recomputes = handle.recomputes.data();
  out.recompute_count = handle.recomputes.size();
  out.stores = handle.stores.data();
  out.store_count = handle.stores.size();
  out.reduced = reduced ? 1 : 0;
  out.diverged = from.diverged ? 1 : 0;
  out.l2_dropped = from.l2_dropped ? 1 : 0;
}

void fill_stats(ReloadGroup& group, hicache_group_stats& out) {
  const hc::ControllerCounters& from = group.counters();
  out.agreement = static_cast<std::uint32_t>(group.agreement());
  out.ticks = group.stats().ticks;
  out.reduces = group.stats().reduces;
  out.joins = group.stats().joins;
  out.offers = from.offers;
  out.held = from.held;
  out.piggybacked = from.piggybacked;
  out.admitted = from.admitted;
  out.pages_admitted = from.pages_admitted;
  out.divergences = from.divergences;
  out.l2_drops = from.l2_drops;
  out.late_landings = from.late_landings;
  out.unwanted = from.unwanted;
  std::copy(from.declined.begin(), from.declined.end(), out.declined);
  std::copy(from.recomputed.begin(), from.recomputed.end(), out.recomputed);
  out.quota_pages = group.quota().pages_max();
  const auto used = group.quota().used();
  out.quota_used = *std::max_element(used.begin(), used.end());
  out.nodes = group.tree().node_count();
  out.l1_pages = group.tree().l1_pages();
  out.l2_grants = group.tree().grant_count();
  out.bytes_reloaded = group.stats().bytes_reloaded;
  out.stores_in_flight = group.stats().stores_in_flight;
}

}  // namespace

extern "C" {

hicache_code hicache_group_open(hicache_client* client, const hicache_group_options* options,
                                hicache_group** out) {
  return guarded_group([&]() -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    *out = nullptr;
    HC_TRY_VOID(hc::check_given("client", client));
    auto plan = hc::check_group(options, client->client->plan());
    HC_TRY(plan);
    auto group = std::make_unique<ReloadGroup>(*client->client, std::move(*plan));
    *out = new hicache_group{client, std::move(group), {}, {}, {}};
    return {};
  });
}

hicache_code hicache_group_close(hicache_group* group) {
  return guarded_group([&]() -> Result<void> {
    const std::unique_ptr<hicache_group> closed(group);
    if (closed != nullptr && closed->client->client->in_child()) {
      static_cast<void>(closed->group.release());  // the parent's: not to be touched
    }
    return {};
  });
}

hicache_code hicache_group_join(hicache_group* group, uint32_t timeout_ms, int* kept) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("kept", kept));
    *kept = 0;
    const auto joined = at.join(timeout_ms);
    HC_TRY(joined);
    *kept = *joined ? 1 : 0;
    return {};
  });
}

hicache_code hicache_group_match(hicache_group* group, const hicache_page* pages,
                                 size_t page_count, hicache_match* out) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    *out = {};
    const auto path = read_path(group, pages, page_count);
    HC_TRY(path);
    const hc::PrefixMatch match = at.tree().match(path->hashes);
    *out = {{match.anchor.node, match.anchor.use}, match.l1_pages, match.l2_pages};
    return {};
  });
}

hicache_code hicache_group_fill_l1(hicache_group* group, const hicache_page* pages,
                                   size_t page_count) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    const auto path = read_path(group, pages, page_count);
    HC_TRY(path);
    if (!path->hashes.empty() && !at.tree().fill_l1(path->run())) {
      return hc::make_error(Code::no_space, "options.nodes_max: the tree has no record left");
    }
    return {};
  });
}

hicache_code hicache_group_evict_l1(hicache_group* group, uint32_t pages, uint32_t* evicted) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("evicted", evicted));
    *evicted = at.tree().evict_l1(pages);
    return {};
  });
}

hicache_code hicache_group_lock(hicache_group* group, hicache_anchor anchor) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(check_anchor(at, anchor));
    at.tree().lock(anchor_of(anchor));
    return {};
  });
}

hicache_code hicache_group_unlock(hicache_group* group, hicache_anchor anchor) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    if (at.tree().is_live(anchor_of(anchor)) && !at.tree().is_locked(anchor_of(anchor))) {
      return hc::make_error(Code::bad_argument, "anchor.node = " + std::to_string(anchor.node) +
                                                    ": is not locked");
    }
    at.tree().unlock(anchor_of(anchor));  // what had to go took its locks along
    return {};
  });
}

hicache_code hicache_group_places(hicache_group* group, hicache_anchor anchor, hicache_place* out,
                                  size_t max, size_t* count) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("count", count));
    *count = 0;
    if (max > 0) {
      HC_TRY_VOID(hc::check_given("out", out));
    }
    HC_TRY_VOID(check_anchor(at, anchor));
    std::vector<hc::PrefixTree::Place> places;
    at.tree().places_in_l2(anchor_of(anchor), places);
    for (std::size_t i = 0; i < std::min(max, places.size()); ++i) {
      out[i] = {places[i].lease, places[i].page, 0};
    }
    *count = places.size();
    return {};
  });
}

hicache_code hicache_group_clear(hicache_group* group) {
  return on_group(group, [](ReloadGroup& at) -> Result<void> {
    at.clear();
    return {};
  });
}

hicache_code hicache_group_offer(hicache_group* group, const hicache_miss* miss,
                                 uint32_t* decline) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("decline", decline));
    *decline = HICACHE_DECLINE_APART;
    HC_TRY_VOID(hc::check_given("miss", miss));
    auto suffix = read_suffix(group, *miss);
    HC_TRY(suffix);
    if (at.is_met()) {
      *decline = static_cast<std::uint32_t>(
          at.offer(hc::RequestId{miss->request}, std::move(*suffix)));
    }
    return {};
  });
}

hicache_code hicache_group_withdraw(hicache_group* group, uint64_t request) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    at.withdraw(hc::RequestId{request});
    return {};
  });
}

hicache_code hicache_group_store(hicache_group* group, const hicache_op* op,
                                 const hicache_page* pages, size_t page_count, size_t first_page,
                                 uint64_t* store) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("store", store));
    *store = 0;
    HC_TRY_VOID(hc::check_given("op", op));
    HC_TRY_VOID(hc::check_given("pages", pages));
    HC_TRY_VOID(hc::check_bounds("page_count", page_count, {1, hc::kExistsPagesMax}));
    HC_TRY_VOID(hc::check_bounds("first_page", first_page, {0, page_count - 1}));
    const auto path = read_path(group, pages, page_count);
    HC_TRY(path);
    const auto number = at.store(*op, {pages, page_count}, path->run(), first_page);
    HC_TRY(number);
    *store = *number;
    return {};
  });
}

int hicache_group_take(hicache_group* group, const hicache_completion* completion) {
  bool taken = false;
  if (completion != nullptr) {
    static_cast<void>(on_group(group, [&](ReloadGroup& at) -> Result<void> {
      taken = at.take(*completion);
      return {};
    }));
  }
  return taken ? 1 : 0;
}

hicache_code hicache_group_tick(hicache_group* group, hicache_decisions* out) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    *out = {};
    bool reduced = false;
    const Code code = at.tick(reduced);
    fill(*group, reduced, *out);
    if (code != Code::ok) {
      return hc::make_error(code, "the ranks of the group are apart: hicache_group_join");
    }
    return {};
  });
}

hicache_code hicache_group_get_stats(hicache_group* group, hicache_group_stats* out) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    HC_TRY_VOID(hc::check_equal("out.struct_bytes", out->struct_bytes, sizeof *out));
    *out = {};
    out->struct_bytes = sizeof *out;
    fill_stats(at, *out);
    return {};
  });
}

hicache_code hicache_post(hicache_client* client, uint32_t key, const uint8_t* value,
                          size_t value_bytes, uint32_t timeout_ms) {
  return guarded_group([&]() -> Result<void> {
    HC_TRY_VOID(hc::check_given("client", client));
    HC_TRY_VOID(hc::check_given("value", value));
    return client->client->post(key, {value, value_bytes}, timeout_ms);
  });
}

hicache_code hicache_fetch(hicache_client* client, uint32_t key, uint8_t* value,
                           size_t* value_bytes, uint32_t timeout_ms) {
  return guarded_group([&]() -> Result<void> {
    HC_TRY_VOID(hc::check_given("client", client));
    HC_TRY_VOID(hc::check_given("value_bytes", value_bytes));
    HC_TRY_VOID(hc::check_given("value", value));
    const auto got = client->client->get(key, timeout_ms);
    HC_TRY(got);
    if (got->size() > *value_bytes) {
      return hc::make_error(Code::bad_argument, "value_bytes = " + std::to_string(*value_bytes) +
                                                    ": must be at least " +
                                                    std::to_string(got->size()));
    }
    std::copy(got->begin(), got->end(), value);
    *value_bytes = got->size();
    return {};
  });
}

}  // extern "C"
