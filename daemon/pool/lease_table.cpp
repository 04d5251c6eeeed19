// SPDX-License-Identifier: Apache-2.0
// lease_table: leases as chains of nodes from one bounded table.
#include "daemon/pool/lease_table.h"

#include "proto/check.h"

namespace hc {

LeaseTable::LeaseTable(std::uint32_t leases_max, std::uint32_t nodes_max)
    : leases_(leases_max), nodes_(nodes_max) {
  for (std::uint32_t i = leases_max; i-- > 0;) {
    free_leases_.push_back(i);
  }
  for (std::uint32_t i = nodes_max; i-- > 0;) {
    nodes_[i].next = free_node_;
    free_node_ = i;
  }
  nodes_free_ = nodes_max;
}

const LeaseTable::Lease* LeaseTable::find(LeaseId lease) const {
  const auto slot = static_cast<std::uint32_t>(lease.value);
  const auto incarnation = static_cast<std::uint32_t>(lease.value >> 32);
  if (slot >= leases_.size() || !leases_[slot].open || leases_[slot].incarnation != incarnation) {
    return nullptr;
  }
  return &leases_[slot];
}

std::optional<LeaseId> LeaseTable::open(SessionId session) {
  if (free_leases_.empty()) {
    return std::nullopt;
  }
  const std::uint32_t slot = free_leases_.back();
  free_leases_.pop_back();
  Lease& lease = leases_[slot];
  HC_CHECK(!lease.open);
  HC_CHECK(lease.count == 0);
  lease.open = true;
  lease.session = session;
  ++leases_open_;
  return LeaseId{std::uint64_t{lease.incarnation} << 32 | slot};
}

void LeaseTable::reserve_beside(std::uint32_t leases) {
  if (leases <= beside_) {
    return;
  }
  const std::uint32_t more = leases - beside_;
  const auto first_lease = static_cast<std::uint32_t>(leases_.size());
  const auto first_node = static_cast<std::uint32_t>(nodes_.size());
  HC_CHECK(more < kNone32 - first_lease && more < kNone32 - first_node);
  leases_.resize(first_lease + more);
  nodes_.resize(first_node + more);
  for (std::uint32_t i = more; i-- > 0;) {
    free_leases_.push_back(first_lease + i);
    nodes_[first_node + i].next = free_node_;
    free_node_ = first_node + i;
  }
  nodes_free_ += more;
  beside_ = leases;
}

bool LeaseTable::add(LeaseId id, PageId page, std::uint16_t owner) {
  HC_CHECK(find(id) != nullptr);
  if (free_node_ == kNone32) {
    return false;
  }
  const std::uint32_t node = free_node_;
  free_node_ = nodes_[node].next;
  --nodes_free_;
  nodes_[node] = Node{page, owner, kNone32};
  Lease& lease = leases_[static_cast<std::uint32_t>(id.value)];
  if (lease.last == kNone32) {
    lease.first = node;
  } else {
    nodes_[lease.last].next = node;
  }
  lease.last = node;
  ++lease.count;
  return true;
}

void LeaseTable::give(LeaseId id, SessionId session) {
  HC_CHECK(find(id) != nullptr);
  leases_[static_cast<std::uint32_t>(id.value)].session = session;
}

bool LeaseTable::is_open(LeaseId lease) const { return find(lease) != nullptr; }

std::optional<SessionId> LeaseTable::session_of(LeaseId lease) const {
  const Lease* found = find(lease);
  return found == nullptr ? std::nullopt : std::optional(found->session);
}

std::uint32_t LeaseTable::page_count(LeaseId lease) const {
  const Lease* found = find(lease);
  return found == nullptr ? 0 : found->count;
}

std::vector<LeasedPage> LeaseTable::owned_pages(LeaseId lease) const {
  const Lease* found = find(lease);
  std::vector<LeasedPage> out;
  if (found == nullptr) {
    return out;
  }
  out.reserve(found->count);
  for (std::uint32_t node = found->first; node != kNone32; node = nodes_[node].next) {
    out.push_back({nodes_[node].page, nodes_[node].owner});
  }
  HC_CHECK(out.size() == found->count);
  return out;
}

std::vector<PageId> LeaseTable::pages(LeaseId lease) const {
  std::vector<PageId> out;
  for (const LeasedPage& leased : owned_pages(lease)) {
    out.push_back(leased.page);
  }
  return out;
}

std::vector<LeasedPage> LeaseTable::close(LeaseId id) {
  HC_CHECK(find(id) != nullptr);
  std::vector<LeasedPage> out = owned_pages(id);
  Lease& lease = leases_[static_cast<std::uint32_t>(id.value)];
  if (lease.last != kNone32) {
    nodes_[lease.last].next = free_node_;
    free_node_ = lease.first;
    nodes_free_ += lease.count;
  }
  const std::uint32_t incarnation = lease.incarnation + 1;
  lease = Lease{};
  lease.incarnation = incarnation == 0 ? 1 : incarnation;
  free_leases_.push_back(static_cast<std::uint32_t>(id.value));
  --leases_open_;
  return out;
}

std::vector<LeaseId> LeaseTable::all() const {
  std::vector<LeaseId> out;
  for (std::uint32_t slot = 0; slot < leases_.size(); ++slot) {
    if (leases_[slot].open) {
      out.push_back(LeaseId{std::uint64_t{leases_[slot].incarnation} << 32 | slot});
    }
  }
  return out;
}

std::vector<LeaseId> LeaseTable::leases_of(SessionId session) const {
  std::vector<LeaseId> out;
  for (std::uint32_t slot = 0; slot < leases_.size(); ++slot) {
    if (leases_[slot].open && leases_[slot].session == session) {
      out.push_back(LeaseId{std::uint64_t{leases_[slot].incarnation} << 32 | slot});
    }
  }
  return out;
}

}  // namespace hc
