// SPDX-License-Identifier: Apache-2.0
// lease_table: a map from handle to lease.
#include "client/lease_table.h"

#include <utility>

#include "proto/check.h"

namespace hc {

std::uint64_t LeaseTable::add(Lease lease) {
  HC_CHECK(lease.daemon_lease != kNoLease);
  HC_CHECK(lease.frames.size() == std::size_t{lease.page_count} * lease.kind_count);
  leases_.emplace(++last_, std::move(lease));
  return last_;
}

const Lease* LeaseTable::find(std::uint64_t handle) const {
  const auto found = leases_.find(handle);
  return found == leases_.end() ? nullptr : &found->second;
}

void LeaseTable::give_up(std::uint64_t handle) {
  if (const auto found = leases_.find(handle); found != leases_.end()) {
    found->second.given_up = true;
  }
}

void LeaseTable::end_all() {
  ++ends_;
  for (auto& [handle, lease] : leases_) {
    lease.alive = false;
  }
  std::erase_if(leases_, [](const auto& at) { return at.second.given_up; });
}

std::vector<LeaseId> LeaseTable::list() {
  std::vector<LeaseId> out;
  for (auto& [handle, lease] : leases_) {
    lease.listed = lease.alive && !lease.given_up;
    if (lease.listed) {
      out.push_back(lease.daemon_lease);
    }
  }
  return out;
}

void LeaseTable::keep_listed() {
  std::erase_if(leases_, [](const auto& at) { return at.second.alive && !at.second.listed; });
}

}  // namespace hc
