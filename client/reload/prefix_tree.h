// SPDX-License-Identifier: Apache-2.0
// prefix_tree: the radix tree over page hashes for engines that bring none.
//
// Owner thread: the controller's. Equal on all ranks but for the lease handles.
// Invariants:
//   - a node is a run of pages; a child's first hash is chained on its parent's last, so one table
//     of first hashes finds every child, and no token ids are kept
//   - what is in L1 is closed towards the root; what is only in L2 hangs below it
//   - a grant (one lease) covers a run of pages of one path: splits cut it into fragments, and it
//     ends as a whole, because a lease does
//   - a page that is accessed makes its ancestors newer than itself: tail older than head
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/reload/attach_point.h"
#include "client/reload/decision_digest.h"
#include "client/reload/page_quota.h"

namespace hc {

struct PrefixTreeOptions {
  std::uint32_t nodes_max = 65'536;
  std::optional<PageHash> seed;  // of the namespace; none: the chain starts at the root
};

// How far a prefix reaches. `l1_pages` of them are in L1, the next `l2_pages` only in L2.
struct PrefixMatch {
  AnchorId anchor;
  std::uint32_t l1_pages = 0;
  std::uint32_t l2_pages = 0;
  std::uint32_t pages() const { return l1_pages + l2_pages; }
};

class PrefixTree final : public AttachPoint {
 public:
  PrefixTree(const PrefixTreeOptions& options, PageQuota& quota);

  AnchorId root() const { return {0, 0}; }
  bool is_live(AnchorId anchor) const;
  // Walks down, splits the node in which the match ends, and touches the path.
  PrefixMatch match(std::span<const PageHash> path);
  // The path is in L1 now, computed or loaded; new nodes for what was not there. False: no record.
  bool fill_l1(const PageRun& path);
  // Drops L1 of the oldest unlocked nodes, leaves first, until `pages` are free or none is left;
  // returns how many. A node without L2 goes, with what hangs below it.
  std::uint32_t evict_l1(std::uint32_t pages);
  // Nodes from here to the root are in use: they stay where they are.
  void lock(AnchorId anchor);
  void unlock(AnchorId anchor);
  bool is_locked(AnchorId anchor) const { return nodes_[anchor.node].locks > 0; }
  // Where the pages lie that are only in L2 on the path to `anchor`, in order: to load them.
  struct Place {
    LeaseHandle lease = kNoLeaseHandle;
    std::uint32_t page = 0;  // within the lease
  };
  void places_in_l2(AnchorId anchor, std::vector<Place>& out) const;

  Anchor look(AnchorId anchor, const PageHash& first) override;
  bool make_room(const OwnerCounts& pages) override;
  bool insert(AnchorId anchor, const PageRun& pages, L2Grant grant) override;
  void end_tick() override;
  bool adopt_stored(const PageRun& path, std::size_t first, L2Grant grant) override;
  void drop_l2() override;
  void take_released(std::vector<LeaseHandle>& out) override;
  std::uint64_t fingerprint() const override {
    return static_cast<std::uint64_t>(changes_.value());
  }
  void restart_fingerprint(std::uint64_t epoch) override { changes_.restart(epoch); }

  // Of what is in L1, in the order of its age: ranks with equal ones evict alike.
  std::int64_t l1_digest() const;
  // Every node goes, locked ones too, and with them what is in L2.
  void clear();

  std::uint32_t node_count() const { return nodes_in_use_; }
  std::uint32_t l1_pages() const { return l1_pages_; }
  std::uint32_t grant_count() const { return static_cast<std::uint32_t>(grants_by_age_.size()); }
  // Every invariant above, over the whole tree; for tests.
  void check() const;

 private:
  struct Node {
    bool in_use = false;
    bool in_l1 = false;
    std::uint32_t use = 0;
    std::uint32_t parent = 0;
    std::uint32_t first_child = kNone32;
    std::uint32_t next_sibling = kNone32;
    std::uint32_t previous_sibling = kNone32;
    std::uint32_t l1_children = 0;
    std::uint32_t locks = 0;
    std::uint32_t grant = kNone32;
    std::uint32_t grant_page = 0;  // of its first page, within the grant
    std::uint64_t access = 0;
    std::vector<PageHash> hashes;
    std::vector<std::uint16_t> owners;
  };
  struct Grant {
    bool in_use = false;
    std::uint64_t access = 0;
    L2Grant held;
    std::vector<std::uint32_t> fragments;  // nodes, from the root's side
  };
  using Age = std::pair<std::uint64_t, std::uint32_t>;  // access, index

  AnchorId anchor_of(std::uint32_t node) const { return {node, nodes_[node].use}; }
  std::uint32_t child(std::uint32_t parent, const PageHash& first) const;
  // As the first page of some node. Under another parent only if the engine's keys are no chain:
  // such a page does not get in.
  bool is_known(const PageHash& first) const { return first_pages_.count(first) != 0; }
  std::uint32_t make_node(std::uint32_t parent, const PageRun& pages);
  void link(std::uint32_t node, std::uint32_t parent);
  void unlink(std::uint32_t node);
  void remove_node(std::uint32_t node);
  std::uint32_t split(std::uint32_t node, std::size_t at);
  void set_l1(std::uint32_t node, bool in_l1);
  void set_access(std::uint32_t node, std::uint64_t access);
  void touch(std::uint32_t node);
  std::uint32_t open_grant(L2Grant grant);
  void add_fragment(std::uint32_t grant, std::uint32_t node, std::uint32_t grant_page);
  void renew_age(std::uint32_t grant);
  bool may_end(const Grant& grant) const;
  void end_grant(std::uint32_t grant);
  void drop_below(std::uint32_t node);
  void note(std::uint64_t what, const PageHash& hash);
  // The node that ends where the path and the tree part, split off if need be; `reached`: pages
  // before that. Short of it where no record is free for a split.
  std::uint32_t walk(std::span<const PageHash> path, std::size_t& reached);
  std::vector<std::uint32_t> nodes_to(std::uint32_t node) const;

  PageQuota& quota_;
  std::optional<PageHash> seed_;
  std::vector<Node> nodes_;  // 0 is the root: no pages, always in L1
  std::vector<std::uint32_t> free_nodes_;
  std::uint32_t nodes_in_use_ = 0;
  std::uint32_t l1_pages_ = 0;
  struct HashOfHash {
    std::size_t operator()(const PageHash& hash) const { return hash.word(0); }
  };
  std::unordered_map<PageHash, std::uint32_t, HashOfHash> first_pages_;
  std::vector<Grant> grants_;
  std::vector<std::uint32_t> free_grants_;
  std::set<Age> grants_by_age_;
  std::set<Age> l1_by_age_;
  std::uint64_t clock_ = 0;
  std::vector<LeaseHandle> released_;
  std::vector<AnchorId> inserted_;  // in this tick, and locked until it ends
  DecisionDigest changes_;
};

}  // namespace hc
