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

void LeaseTable::end_all() {
  ++ends_;
  for (auto& [handle, lease] : leases_) {
    lease.alive = false;
  }
}

}  // namespace hc
