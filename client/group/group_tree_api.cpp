// SPDX-License-Identifier: Apache-2.0
// group_tree_api: the functions of hicache_group.h about prefix trees.
//
// Owner thread: the engine's scheduler. On failure the output is zero.
#include <algorithm>
#include <string>

#include "client/group/group_handle.h"

namespace {

using hc::anchor_of;
using hc::Code;
using hc::on_group;
using hc::read_path;
using hc::ReloadGroup;
using hc::Result;

// A call on the library's tree.
template <typename Body>
hicache_code on_tree(hicache_group* handle, Body&& body) {
  return on_group(handle, [&](ReloadGroup& group) -> Result<void> {
    if (group.tree() == nullptr) {
      return hc::make_error(Code::unsupported, "options.tree: the engine has a tree of its own");
    }
    return body(*group.tree());
  });
}

Result<void> check_anchor(const hc::PrefixTree& tree, hicache_anchor anchor) {
  if (tree.is_live(anchor_of(anchor))) {
    return {};
  }
  return hc::make_error(Code::not_found, "anchor.node = " + std::to_string(anchor.node) +
                                             ", use = " + std::to_string(anchor.use) +
                                             ": has gone; match the request again");
}

}  // namespace

extern "C" {

hicache_code hicache_group_match(hicache_group* group, const hicache_page* pages,
                                 size_t page_count, hicache_match* out) {
  return on_tree(group, [&](hc::PrefixTree& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    *out = {};
    const auto path = read_path(group, pages, page_count);
    HC_TRY(path);
    const hc::PrefixMatch match = at.match(path->hashes);
    *out = {{match.anchor.node, match.anchor.use}, match.l1_pages, match.l2_pages};
    return {};
  });
}

hicache_code hicache_group_fill_l1(hicache_group* group, const hicache_page* pages,
                                   size_t page_count) {
  return on_tree(group, [&](hc::PrefixTree& at) -> Result<void> {
    const auto path = read_path(group, pages, page_count);
    HC_TRY(path);
    if (!path->hashes.empty() && !at.fill_l1(path->run())) {
      return hc::make_error(Code::no_space, "options.nodes_max: the tree has no record left");
    }
    return {};
  });
}

hicache_code hicache_group_evict_l1(hicache_group* group, uint32_t pages, uint32_t* evicted) {
  return on_tree(group, [&](hc::PrefixTree& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("evicted", evicted));
    *evicted = at.evict_l1(pages);
    return {};
  });
}

hicache_code hicache_group_lock(hicache_group* group, hicache_anchor anchor) {
  return on_tree(group, [&](hc::PrefixTree& at) -> Result<void> {
    HC_TRY_VOID(check_anchor(at, anchor));
    at.lock(anchor_of(anchor));
    return {};
  });
}

hicache_code hicache_group_unlock(hicache_group* group, hicache_anchor anchor) {
  return on_tree(group, [&](hc::PrefixTree& at) -> Result<void> {
    if (at.is_live(anchor_of(anchor)) && !at.is_locked(anchor_of(anchor))) {
      return hc::make_error(Code::bad_argument, "anchor.node = " + std::to_string(anchor.node) +
                                                    ": is not locked");
    }
    at.unlock(anchor_of(anchor));  // what had to go took its locks along
    return {};
  });
}

hicache_code hicache_group_places(hicache_group* group, hicache_anchor anchor, hicache_place* out,
                                  size_t max, size_t* count) {
  return on_tree(group, [&](hc::PrefixTree& at) -> Result<void> {
    HC_TRY_VOID(hc::check_given("count", count));
    *count = 0;
    if (max > 0) {
      HC_TRY_VOID(hc::check_given("out", out));
    }
    HC_TRY_VOID(check_anchor(at, anchor));
    std::vector<hc::PrefixTree::Place> places;
    at.places_in_l2(anchor_of(anchor), places);
    for (std::size_t i = 0; i < std::min(max, places.size()); ++i) {
      out[i] = {places[i].lease, places[i].page, 0};
    }
    *count = places.size();
    return {};
  });
}

hicache_code hicache_group_end_lease(hicache_group* group, uint64_t lease) {
  return on_group(group, [&](ReloadGroup& at) -> Result<void> {
    if (!at.end_lease(lease)) {
      return hc::make_error(Code::not_found, "lease = " + std::to_string(lease) +
                                                 ": is none of the engine's tree");
    }
    return {};
  });
}

}  // extern "C"
