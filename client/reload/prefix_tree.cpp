// SPDX-License-Identifier: Apache-2.0
// prefix_tree: nodes: matching, splits, what is in L1.
#include "client/reload/prefix_tree.h"

#include <algorithm>

namespace hc {

namespace {

// What a change was, in the fingerprint.
enum class Change : std::uint64_t { made = 1, removed, split, l1_filled, l1_left };

std::size_t common_pages(const std::vector<PageHash>& node, std::span<const PageHash> path) {
  const std::size_t most = std::min(node.size(), path.size());
  return static_cast<std::size_t>(
      std::mismatch(node.begin(), node.begin() + static_cast<std::ptrdiff_t>(most), path.begin())
          .first -
      node.begin());
}

}  // namespace

PrefixTree::PrefixTree(const PrefixTreeOptions& options, PageQuota& quota)
    : quota_(quota), seed_(options.seed), nodes_(std::size_t{options.nodes_max} + 1) {
  free_nodes_.reserve(options.nodes_max);
  for (std::uint32_t i = options.nodes_max; i > 0; --i) {
    free_nodes_.push_back(i);
  }
  first_pages_.reserve(options.nodes_max);
  nodes_[0].in_use = true;
  nodes_[0].in_l1 = true;
}

bool PrefixTree::is_live(AnchorId anchor) const {
  return anchor.node < nodes_.size() && nodes_[anchor.node].in_use &&
         nodes_[anchor.node].use == anchor.use;
}

std::uint32_t PrefixTree::child(std::uint32_t parent, const PageHash& first) const {
  const auto at = first_pages_.find(first);
  return at != first_pages_.end() && nodes_[at->second].parent == parent ? at->second : kNone32;
}

void PrefixTree::note(std::uint64_t what, const PageHash& hash) {
  changes_.add(what);
  changes_.add(hash);
}

void PrefixTree::link(std::uint32_t index, std::uint32_t parent) {
  Node& node = nodes_[index];
  node.parent = parent;
  node.previous_sibling = kNone32;
  node.next_sibling = nodes_[parent].first_child;
  if (node.next_sibling != kNone32) {
    nodes_[node.next_sibling].previous_sibling = index;
  }
  nodes_[parent].first_child = index;
}

void PrefixTree::unlink(std::uint32_t index) {
  const Node& node = nodes_[index];
  (node.previous_sibling == kNone32 ? nodes_[node.parent].first_child
                                    : nodes_[node.previous_sibling].next_sibling) =
      node.next_sibling;
  if (node.next_sibling != kNone32) {
    nodes_[node.next_sibling].previous_sibling = node.previous_sibling;
  }
}

std::uint32_t PrefixTree::make_node(std::uint32_t parent, const PageRun& pages) {
  HC_CHECK(!free_nodes_.empty() && !pages.hashes.empty());
  HC_CHECK(pages.hashes.size() == pages.owners.size());
  const std::uint32_t index = free_nodes_.back();
  free_nodes_.pop_back();
  const std::uint32_t use = nodes_[index].use;
  Node& node = nodes_[index];
  node = Node{};
  node.use = use;
  node.in_use = true;
  node.hashes.assign(pages.hashes.begin(), pages.hashes.end());
  node.owners.assign(pages.owners.begin(), pages.owners.end());
  link(index, parent);
  const bool is_new = first_pages_.emplace(node.hashes.front(), index).second;
  HC_CHECK(is_new);
  ++nodes_in_use_;
  note(static_cast<std::uint64_t>(Change::made), node.hashes.back());
  return index;
}

// A lock on a node that has to go ends with it.
void PrefixTree::remove_node(std::uint32_t index) {
  Node& node = nodes_[index];
  HC_CHECK(index != 0 && node.in_use);
  HC_CHECK(node.first_child == kNone32 && !node.in_l1 && node.grant == kNone32);
  for (std::uint32_t at = node.parent; node.locks > 0 && at != 0; at = nodes_[at].parent) {
    HC_CHECK(nodes_[at].locks >= node.locks);
    nodes_[at].locks -= node.locks;
  }
  note(static_cast<std::uint64_t>(Change::removed), node.hashes.back());
  unlink(index);
  first_pages_.erase(node.hashes.front());
  node.in_use = false;
  ++node.use;
  node.hashes.clear();
  node.owners.clear();
  --nodes_in_use_;
  free_nodes_.push_back(index);
}

// The first `at` pages become a node above this one. Who holds an anchor at the end of the node
// goes on holding it.
std::uint32_t PrefixTree::split(std::uint32_t index, std::size_t at) {
  HC_CHECK(at > 0 && at < nodes_[index].hashes.size());
  const std::vector<PageHash> hashes = nodes_[index].hashes;
  const std::vector<std::uint16_t> owners = nodes_[index].owners;
  const auto cut = static_cast<std::ptrdiff_t>(at);
  first_pages_.erase(hashes.front());
  unlink(index);
  const std::uint32_t upper_index =
      make_node(nodes_[index].parent, {std::span(hashes).first(at), std::span(owners).first(at)});
  Node& lower = nodes_[index];
  Node& upper = nodes_[upper_index];
  lower.hashes.assign(hashes.begin() + cut, hashes.end());
  lower.owners.assign(owners.begin() + cut, owners.end());
  first_pages_.emplace(lower.hashes.front(), index);
  link(index, upper_index);
  upper.locks = lower.locks;
  upper.access = lower.access;
  upper.in_l1 = lower.in_l1;
  if (upper.in_l1) {
    upper.l1_children = 1;
    l1_by_age_.emplace(upper.access, upper_index);
  }
  if (lower.grant != kNone32) {
    upper.grant = lower.grant;
    upper.grant_page = lower.grant_page;
    lower.grant_page += static_cast<std::uint32_t>(at);
    auto& fragments = grants_[lower.grant].fragments;
    fragments.insert(std::find(fragments.begin(), fragments.end(), index), upper_index);
  }
  note(static_cast<std::uint64_t>(Change::split), upper.hashes.back());
  return upper_index;
}

std::uint32_t PrefixTree::walk(std::span<const PageHash> path, std::size_t& reached) {
  std::uint32_t node = 0;
  reached = 0;
  while (reached < path.size()) {
    const std::uint32_t next = child(node, path[reached]);
    if (next == kNone32) {
      return node;
    }
    const std::size_t common = common_pages(nodes_[next].hashes, path.subspan(reached));
    if (common < nodes_[next].hashes.size()) {
      if (free_nodes_.empty() || is_known(nodes_[next].hashes[common])) {
        return node;
      }
      reached += common;
      return split(next, common);
    }
    node = next;
    reached += common;
  }
  return node;
}

std::vector<std::uint32_t> PrefixTree::nodes_to(std::uint32_t node) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t at = node; at != 0; at = nodes_[at].parent) {
    out.push_back(at);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void PrefixTree::set_access(std::uint32_t index, std::uint64_t access) {
  Node& node = nodes_[index];
  if (node.in_l1) {
    l1_by_age_.erase({node.access, index});
    l1_by_age_.emplace(access, index);
  }
  node.access = access;
  if (node.grant != kNone32) {
    renew_age(node.grant);
  }
}

// From the tail to the head: an ancestor is newer than what hangs below it.
void PrefixTree::touch(std::uint32_t node) {
  for (std::uint32_t at = node; at != 0; at = nodes_[at].parent) {
    set_access(at, ++clock_);
  }
}

void PrefixTree::set_l1(std::uint32_t index, bool in_l1) {
  Node& node = nodes_[index];
  if (node.in_l1 == in_l1) {
    return;
  }
  HC_CHECK(index != 0 && nodes_[node.parent].in_l1 && node.l1_children == 0);
  const auto pages = static_cast<std::uint32_t>(node.hashes.size());
  node.in_l1 = in_l1;
  if (in_l1) {
    ++nodes_[node.parent].l1_children;
    l1_by_age_.emplace(node.access, index);
    l1_pages_ += pages;
  } else {
    --nodes_[node.parent].l1_children;
    l1_by_age_.erase({node.access, index});
    l1_pages_ -= pages;
  }
  note(static_cast<std::uint64_t>(in_l1 ? Change::l1_filled : Change::l1_left),
       node.hashes.back());
}

PrefixMatch PrefixTree::match(std::span<const PageHash> path) {
  std::size_t reached = 0;
  const std::uint32_t node = walk(path, reached);
  touch(node);
  PrefixMatch out{anchor_of(node), 0, 0};
  for (std::uint32_t at = node; at != 0; at = nodes_[at].parent) {
    (nodes_[at].in_l1 ? out.l1_pages : out.l2_pages) +=
        static_cast<std::uint32_t>(nodes_[at].hashes.size());
  }
  return out;
}

bool PrefixTree::fill_l1(const PageRun& path) {
  std::size_t reached = 0;
  std::uint32_t node = walk(path.hashes, reached);
  const bool has_rest = reached < path.hashes.size();
  if (has_rest && (free_nodes_.empty() || is_known(path.hashes[reached]))) {
    return false;
  }
  for (const std::uint32_t at : nodes_to(node)) {
    set_l1(at, true);
  }
  if (has_rest) {
    node = make_node(node, {path.hashes.subspan(reached), path.owners.subspan(reached)});
    set_l1(node, true);
  }
  touch(node);
  return true;
}

std::uint32_t PrefixTree::evict_l1(std::uint32_t pages) {
  std::uint32_t freed = 0;
  bool moved = true;
  while (freed < pages && moved) {
    moved = false;
    // Ancestors are newer, so they come up after what hangs below them.
    for (auto at = l1_by_age_.begin(); at != l1_by_age_.end() && freed < pages;) {
      const Age age = *at;
      const Node& node = nodes_[age.second];
      if (node.l1_children == 0 && node.locks == 0) {
        freed += static_cast<std::uint32_t>(node.hashes.size());
        set_l1(age.second, false);
        if (node.grant == kNone32) {
          drop_below(age.second);
          remove_node(age.second);
        }
        moved = true;
      }
      at = l1_by_age_.upper_bound(age);
    }
  }
  return freed;
}

void PrefixTree::clear() {
  drop_l2();
  while (!l1_by_age_.empty()) {
    for (auto at = l1_by_age_.begin(); at != l1_by_age_.end();) {
      const Age age = *at;
      if (nodes_[age.second].l1_children == 0) {
        set_l1(age.second, false);
        remove_node(age.second);
      }
      at = l1_by_age_.upper_bound(age);
    }
  }
}

std::int64_t PrefixTree::l1_digest() const {
  DecisionDigest digest;
  for (const auto& [access, index] : l1_by_age_) {
    digest.add(nodes_[index].hashes.front());
    digest.add(nodes_[index].hashes.back());
  }
  return digest.value();
}

void PrefixTree::lock(AnchorId anchor) {
  HC_CHECK(is_live(anchor));
  for (std::uint32_t at = anchor.node; at != 0; at = nodes_[at].parent) {
    ++nodes_[at].locks;
  }
}

// What had to go took its locks along.
void PrefixTree::unlock(AnchorId anchor) {
  if (!is_live(anchor)) {
    return;
  }
  for (std::uint32_t at = anchor.node; at != 0; at = nodes_[at].parent) {
    HC_CHECK(nodes_[at].locks > 0);
    --nodes_[at].locks;
  }
}

}  // namespace hc
