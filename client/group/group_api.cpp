// SPDX-License-Identifier: Apache-2.0
// group_api: the functions of hicache_group.h: pointers judged, exceptions stopped, errors kept per
// thread.
//
// Owner thread: the engine's scheduler. Invariants: no exception leaves a function; on failure the
// output is zero.
#include <algorithm>
#include <memory>
#include <utility>

#include "client/group/group_handle.h"

namespace {

using hc::anchor_of;
using hc::Code;
using hc::guarded_group;
using hc::on_group;
using hc::read_path;
using hc::ReloadGroup;
using hc::Result;

static_assert(HICACHE_DECLINE_FULL == static_cast<int>(hc::Decline::full));
static_assert(HICACHE_RECOMPUTE_DIVERGED == static_cast<int>(hc::Recompute::diverged));
static_assert(HICACHE_AGREE_HOOK == static_cast<int>(hc::AgreementKind::hook));

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
    out.anchor_hash = handle->group->attach_point().look(out.anchor, out.hashes.front()).live_hash;
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
  out.nodes = group.tree() == nullptr ? 0 : group.tree()->node_count();
  out.l1_pages = group.tree() == nullptr ? 0 : group.tree()->l1_pages();
  out.l2_grants = group.grant_count();
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

hicache_code hicache_group_set_nccl_id(hicache_group* group, const uint8_t* nccl_id) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("nccl_id", nccl_id));
    at.set_nccl_id(std::span<const std::uint8_t, hc::kNcclUniqueIdBytes>(
        nccl_id, hc::kNcclUniqueIdBytes));
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
