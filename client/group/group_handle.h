// SPDX-License-Identifier: Apache-2.0
// group_handle: what the C names of a group stand for, and how a call of them is guarded.
//
// Owner thread: the engine's scheduler. Invariant: no exception leaves a guarded body.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

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

namespace hc {

template <typename Body>
hicache_code guarded_group(Body&& body) {
  try {
    const Result<void> result = body();
    return result ? HICACHE_OK : fail(result.error());
  } catch (const std::bad_alloc&) {
    return fail(Code::no_space, "out of memory");
  } catch (const std::exception& caught) {
    return fail(Code::io_error, caught.what());
  }
}

template <typename Body>
hicache_code on_group(hicache_group* handle, Body&& body) {
  if (handle == nullptr) {
    return fail(Code::bad_argument, "group = NULL: must be given");
  }
  if (handle->client->client->in_child()) {
    return fail(Code::refused, "a forked child must not use the group of its parent");
  }
  return guarded_group([&] { return body(*handle->group); });
}

// Keys and owners of pages that check_pages has judged.
struct Path {
  std::vector<PageHash> hashes;
  std::vector<std::uint16_t> owners;
  PageRun run() const { return {hashes, owners}; }
};

inline Result<Path> read_path(hicache_group* handle, const hicache_page* pages,
                              std::size_t count) {
  if (count == 0) {
    return Path{};
  }
  const OpenPlan& plan = handle->client->client->plan();
  HC_TRY_VOID(check_pages({plan.space, plan.shard, Verb::none, 0, nullptr}, pages, count));
  Path out;
  out.hashes.reserve(count);
  out.owners.reserve(count);
  const std::uint32_t owners = handle->group->quota().owners();
  for (std::size_t i = 0; i < count; ++i) {
    out.hashes.push_back(*page_hash_from_key({pages[i].key, pages[i].key_bytes}));
    out.owners.push_back(owners == 1 ? std::uint16_t{0} : pages[i].owner);
  }
  return out;
}

inline AnchorId anchor_of(hicache_anchor from) { return {from.node, from.use}; }

}  // namespace hc
