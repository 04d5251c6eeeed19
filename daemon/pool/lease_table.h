// SPDX-License-Identifier: Apache-2.0
// lease_table: which session holds which pages in L2.
//
// Owner: the reactor thread.
// Invariants:
//   - every node belongs to exactly one lease or to the free list
//   - a LeaseId is never used twice (it carries the incarnation of its table slot)
// A page stands in a lease as often as it was added; the caller counts holds per page.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/ids.h"
#include "proto/limits.h"

namespace hc {

struct LeasedPage {
  PageId page = kNoPage;
  std::uint16_t owner = 0;
  friend bool operator==(const LeasedPage&, const LeasedPage&) = default;
};

class LeaseTable {
 public:
  LeaseTable(std::uint32_t leases_max, std::uint32_t nodes_max);

  // An empty lease; nothing when the table is full.
  std::optional<LeaseId> open(SessionId session);
  // False when there is no room for another page; the lease is unchanged then. The owner is the
  // caller's, and comes back with the page.
  bool add(LeaseId lease, PageId page, std::uint16_t owner = 0);
  // From now on it is that session's.
  void give(LeaseId lease, SessionId session);
  // Room for so many leases, of one page each, beside those of the start. Never gives room back.
  void reserve_beside(std::uint32_t leases);

  bool is_open(LeaseId lease) const;
  std::optional<SessionId> session_of(LeaseId lease) const;
  std::uint32_t page_count(LeaseId lease) const;
  std::uint32_t nodes_free() const { return nodes_free_; }
  std::uint32_t nodes_used() const {
    return static_cast<std::uint32_t>(nodes_.size()) - nodes_free_;
  }
  std::uint32_t leases_open() const { return leases_open_; }
  std::uint32_t leases_free() const { return static_cast<std::uint32_t>(free_leases_.size()); }

  // Ends the lease and gives its pages back in the order of addition.
  std::vector<LeasedPage> close(LeaseId lease);
  std::vector<PageId> pages(LeaseId lease) const;
  std::vector<LeasedPage> owned_pages(LeaseId lease) const;
  // Leases of a session, for its end and for stats.
  std::vector<LeaseId> leases_of(SessionId session) const;
  std::vector<LeaseId> all() const;  // that are open

 private:
  struct Lease {
    SessionId session{};
    std::uint32_t incarnation = 1;
    std::uint32_t first = kNone32;
    std::uint32_t last = kNone32;
    std::uint32_t count = 0;
    bool open = false;
  };
  struct Node {
    PageId page = kNoPage;
    std::uint16_t owner = 0;
    std::uint32_t next = kNone32;
  };
  const Lease* find(LeaseId lease) const;

  std::vector<Lease> leases_;
  std::vector<std::uint32_t> free_leases_;
  std::vector<Node> nodes_;
  std::uint32_t free_node_ = kNone32;
  std::uint32_t nodes_free_ = 0;
  std::uint32_t leases_open_ = 0;
  std::uint32_t beside_ = 0;
};

}  // namespace hc
