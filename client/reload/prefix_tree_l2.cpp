// SPDX-License-Identifier: Apache-2.0
// prefix_tree_l2: grants: what is in L2, and how it is evicted to fit.
#include <algorithm>

#include "client/reload/prefix_tree.h"
#include "proto/test_hooks.h"

namespace hc {

std::uint32_t PrefixTree::open_grant(L2Grant held) {
  std::uint32_t index = 0;
  if (free_grants_.empty()) {
    index = static_cast<std::uint32_t>(grants_.size());
    grants_.emplace_back();
  } else {
    index = free_grants_.back();
    free_grants_.pop_back();
  }
  Grant& grant = grants_[index];
  HC_CHECK(!grant.in_use && grant.fragments.empty());
  grant.in_use = true;
  grant.access = 0;
  grant.held = std::move(held);
  grants_by_age_.emplace(0, index);
  return index;
}

void PrefixTree::add_fragment(std::uint32_t grant, std::uint32_t node, std::uint32_t grant_page) {
  HC_CHECK(nodes_[node].grant == kNone32);
  nodes_[node].grant = grant;
  nodes_[node].grant_page = grant_page;
  grants_[grant].fragments.push_back(node);
  renew_age(grant);
}

// A grant is as new as its newest fragment, which is its first: the head.
void PrefixTree::renew_age(std::uint32_t index) {
  Grant& grant = grants_[index];
  std::uint64_t access = 0;
  for (const std::uint32_t node : grant.fragments) {
    access = std::max(access, nodes_[node].access);
  }
  if (access != grant.access) {
    grants_by_age_.erase({grant.access, index});
    grant.access = access;
    grants_by_age_.emplace(access, index);
  }
}

// A lock reaches up to the root, so an unlocked node has no locked one below it.
bool PrefixTree::may_end(const Grant& grant) const {
  return std::all_of(grant.fragments.begin(), grant.fragments.end(), [&](std::uint32_t node) {
    return nodes_[node].in_l1 || nodes_[node].locks == 0;
  });
}

void PrefixTree::end_grant(std::uint32_t index) {
  const std::vector<std::uint32_t> fragments = std::move(grants_[index].fragments);
  grants_[index].fragments.clear();
  for (auto at = fragments.rbegin(); at != fragments.rend(); ++at) {
    nodes_[*at].grant = kNone32;
    if (!nodes_[*at].in_l1) {
      drop_below(*at);
      remove_node(*at);
    }
  }
  Grant& grant = grants_[index];
  grants_by_age_.erase({grant.access, index});
  quota_.give_back(grant.held.pages);
  released_.push_back(grant.held.lease);
  grant.in_use = false;
  grant.held = {};
  free_grants_.push_back(index);
}

// Everything below is only in L2, and each grant there lies below as a whole.
void PrefixTree::drop_below(std::uint32_t node) {
  while (nodes_[node].first_child != kNone32) {
    const std::uint32_t grant = nodes_[nodes_[node].first_child].grant;
    HC_CHECK(grant != kNone32);
    end_grant(grant);
  }
}

bool PrefixTree::make_room(const OwnerCounts& pages) {
  if (quota_.fits(pages)) {
    return true;
  }
  std::vector<std::uint64_t> free(quota_.owners());
  for (std::size_t owner = 0; owner < free.size(); ++owner) {
    free[owner] = quota_.pages_max() - quota_.used()[owner];
  }
  for (const auto& [access, index] : grants_by_age_) {
    if (may_end(grants_[index])) {
      for (std::size_t owner = 0; owner < free.size(); ++owner) {
        free[owner] += grants_[index].held.pages[owner];
      }
    }
  }
  for (std::size_t owner = 0; owner < free.size(); ++owner) {
    if (pages[owner] > free[owner]) {
      return false;
    }
  }
  for (auto at = grants_by_age_.begin(); at != grants_by_age_.end() && !quota_.fits(pages);) {
    const Age age = *at;
    if (may_end(grants_[age.second])) {
      end_grant(age.second);
    }
    at = grants_by_age_.upper_bound(age);
  }
  HC_CHECK(quota_.fits(pages));
  return true;
}

AttachPoint::Anchor PrefixTree::look(AnchorId anchor, const PageHash& first) {
  if (!is_live(anchor)) {
    return {};
  }
  const Node& node = nodes_[anchor.node];
  return {!is_known(first),
          anchor.node == 0 ? seed_ : std::optional<PageHash>(node.hashes.back())};
}

bool PrefixTree::insert(AnchorId anchor, const PageRun& pages, L2Grant held) {
  HC_CHECK(is_live(anchor) && !is_known(pages.hashes.front()));
  if (free_nodes_.empty()) {
    return false;
  }
  const std::uint32_t node = make_node(anchor.node, pages);
  add_fragment(open_grant(std::move(held)), node, 0);
  touch(node);
  if (!HC_MUTANT(admitted_evicted)) {
    inserted_.push_back(anchor_of(node));
    lock(inserted_.back());
  }
  return true;
}

void PrefixTree::end_tick() {
  for (const AnchorId anchor : inserted_) {
    unlock(anchor);
  }
  inserted_.clear();
}

// A grant is one run: it begins at the first page that has none yet, and ends before the next one
// that has.
bool PrefixTree::adopt_stored(const PageRun& path, std::size_t first, L2Grant held) {
  std::size_t reached = 0;
  const std::uint32_t before = walk(path.hashes.first(first), reached);
  if (reached < first) {
    return false;  // what it hangs on has gone
  }
  const std::uint32_t last = walk(path.hashes, reached);
  std::vector<std::uint32_t> run;
  bool is_cut = false;
  std::size_t page = first;
  std::uint32_t first_page = 0;
  const std::vector<std::uint32_t> nodes = nodes_to(last);
  const auto begin =
      before == 0 ? nodes.begin() : std::find(nodes.begin(), nodes.end(), before) + 1;
  for (auto at = begin; at != nodes.end() && !is_cut; ++at) {
    const bool has_grant = nodes_[*at].grant != kNone32;
    is_cut = has_grant && !run.empty();
    if (!has_grant) {
      first_page = run.empty() ? static_cast<std::uint32_t>(page - first) : first_page;
      run.push_back(*at);
    }
    page += nodes_[*at].hashes.size();
  }
  const bool has_rest = reached < path.hashes.size() && !is_cut;
  if (has_rest && !free_nodes_.empty() && !is_known(path.hashes[reached])) {
    first_page = run.empty() ? static_cast<std::uint32_t>(reached - first) : first_page;
    run.push_back(make_node(last, {path.hashes.subspan(reached), path.owners.subspan(reached)}));
    touch(run.back());
  }
  if (run.empty()) {
    return false;
  }
  const std::uint32_t grant = open_grant(std::move(held));
  for (const std::uint32_t node : run) {
    add_fragment(grant, node, first_page);
    first_page += static_cast<std::uint32_t>(nodes_[node].hashes.size());
  }
  return true;
}

void PrefixTree::drop_l2() {
  while (!grants_by_age_.empty()) {
    end_grant(grants_by_age_.begin()->second);
  }
}

void PrefixTree::take_released(std::vector<LeaseHandle>& out) {
  out.insert(out.end(), released_.begin(), released_.end());
  released_.clear();
}

void PrefixTree::places_in_l2(AnchorId anchor, std::vector<Place>& out) const {
  out.clear();
  if (!is_live(anchor)) {
    return;
  }
  for (const std::uint32_t index : nodes_to(anchor.node)) {
    const Node& node = nodes_[index];
    for (std::uint32_t page = 0; !node.in_l1 && page < node.hashes.size(); ++page) {
      out.push_back({grants_[node.grant].held.lease, node.grant_page + page});
    }
  }
}

void PrefixTree::check() const {
  std::uint32_t in_use = 0;
  OwnerCounts charged(quota_.owners(), 0);
  for (std::uint32_t index = 1; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    if (!node.in_use) {
      continue;
    }
    ++in_use;
    const Node& parent = nodes_[node.parent];
    HC_CHECK(parent.in_use && !node.hashes.empty() && node.hashes.size() == node.owners.size());
    HC_CHECK(child(node.parent, node.hashes.front()) == index);
    HC_CHECK(node.in_l1 || node.grant != kNone32);
    HC_CHECK(!node.in_l1 || parent.in_l1);
    HC_CHECK(node.parent == 0 || (parent.locks >= node.locks && parent.access >= node.access));
  }
  HC_CHECK(in_use == nodes_in_use_);
  for (const auto& [access, index] : grants_by_age_) {
    const Grant& grant = grants_[index];
    HC_CHECK(grant.in_use && grant.access == access && !grant.fragments.empty());
    for (std::size_t i = 0; i < grant.fragments.size(); ++i) {
      const Node& node = nodes_[grant.fragments[i]];
      HC_CHECK(node.in_use && node.grant == index);
      HC_CHECK(i == 0 || node.parent == grant.fragments[i - 1]);
    }
    for (std::size_t owner = 0; owner < charged.size(); ++owner) {
      charged[owner] += grant.held.pages[owner];
    }
  }
  for (std::size_t owner = 0; owner < charged.size(); ++owner) {
    HC_CHECK(charged[owner] <= quota_.used()[owner]);
  }
}

}  // namespace hc
