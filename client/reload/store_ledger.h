// SPDX-License-Identifier: Apache-2.0
// store_ledger: the rank-uniform sequence of a group's stores, and which prefix of it is settled on
// all ranks.
//
// Owner thread: the controller's. A store is settled on a rank when it is durable there, also by a
// page that was there already, or when it has failed there (also dropped, busy, no space).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "client/reload/agreement_vector.h"
#include "client/reload/attach_point.h"

namespace hc {

class StoreLedger {
 public:
  struct Store {
    std::vector<PageHash> path;         // from the root to the last page that is stored
    std::vector<std::uint16_t> owners;  // of the path
    std::uint32_t first = 0;            // the first stored page in it
    OwnerCounts charged;
    bool settled = false;               // here; local
    bool failed = false;                // here; local
    LeaseHandle lease = kNoLeaseHandle;  // of this rank; local
  };

  std::uint64_t begin(Store store) {
    stores_.push_back(std::move(store));
    return first_ + stores_.size() - 1;
  }
  // The answer of this rank's daemon. False: not known (any more), give back its lease.
  bool settle(std::uint64_t sequence, bool durable, LeaseHandle lease) {
    if (sequence < first_ || sequence - first_ >= stores_.size() ||
        stores_[sequence - first_].settled) {
      return false;
    }
    Store& store = stores_[sequence - first_];
    store.settled = true;
    store.failed = !durable;
    store.lease = lease;
    return true;
  }
  // Every lease of this rank has gone: what is settled and not agreed on counts as failed. Such
  // pages may be durable; nobody is told that they are.
  void lose_leases() {
    for (Store& store : stores_) {
      store.failed = store.failed || store.settled;
    }
  }
  bool is_empty() const { return stores_.empty(); }
  std::size_t size() const { return stores_.size(); }

  void encode(AgreementVector& vector) const {
    std::uint64_t settled = first_ - 1;
    std::int64_t first_failed = AgreementVector::kUnused;
    for (const Store& store : stores_) {
      if (!store.settled) {
        break;
      }
      ++settled;
      if (store.failed && first_failed == AgreementVector::kUnused) {
        first_failed = static_cast<std::int64_t>(settled);
      }
    }
    vector.words[AgreementVector::kSettled] = static_cast<std::int64_t>(settled);
    vector.words[AgreementVector::kFirstFailed] = first_failed;
  }

  // Takes off what is agreed now, in order: `fn(sequence, store, durable on all ranks)`. A store
  // that failed anywhere is durable nowhere, and ends this step.
  template <typename Fn>
  void apply(const AgreementVector& reduced, Fn&& fn) {
    const std::int64_t settled = reduced.words[AgreementVector::kSettled];
    const std::int64_t failed = reduced.words[AgreementVector::kFirstFailed];
    const std::int64_t agreed = failed <= settled ? failed : settled;
    while (static_cast<std::int64_t>(first_) <= agreed && !stores_.empty()) {
      Store store = std::move(stores_.front());
      stores_.pop_front();
      const std::uint64_t sequence = first_++;
      fn(sequence, store, static_cast<std::int64_t>(sequence) != failed);
    }
  }
  // Nothing that is open becomes durable; numbers begin anew.
  template <typename Fn>
  void restart(Fn&& fn) {
    while (!stores_.empty()) {
      Store store = std::move(stores_.front());
      stores_.pop_front();
      fn(first_++, store, false);
    }
    first_ = 1;
  }

 private:
  std::uint64_t first_ = 1;  // sequence of the oldest that is open
  std::deque<Store> stores_;
};

}  // namespace hc
