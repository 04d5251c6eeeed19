// SPDX-License-Identifier: Apache-2.0
// page_quota: pages counted against the quota that the daemon guarantees this group, per owner.
//
// Owner thread: the controller's. The counts follow from rank-uniform inputs alone, so what fits,
// fits on every rank (R3). Of `owned` kinds each page lies with one owner, and it fits only if
// every owner has room; without owned kinds there is one owner, 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/check.h"

namespace hc {

// Pages per owner, as of an operation or of a lease.
using OwnerCounts = std::vector<std::uint32_t>;

class PageQuota {
 public:
  // `pages_max`: of each owner.
  PageQuota(std::uint32_t owners, std::uint32_t pages_max)
      : pages_max_(pages_max), used_(owners, 0) {
    HC_CHECK(owners > 0);
  }

  std::uint32_t owners() const { return static_cast<std::uint32_t>(used_.size()); }
  std::uint32_t pages_max() const { return pages_max_; }
  std::span<const std::uint32_t> used() const { return used_; }

  OwnerCounts count(std::span<const std::uint16_t> owner_of_page) const {
    OwnerCounts out(used_.size(), 0);
    for (const std::uint16_t owner : owner_of_page) {
      HC_CHECK(owner < out.size());
      ++out[owner];
    }
    return out;
  }
  bool fits(const OwnerCounts& pages) const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (pages[i] > pages_max_ - used_[i]) {
        return false;
      }
    }
    return true;
  }
  // Whether it fits when nothing else is there.
  bool can_ever_fit(const OwnerCounts& pages) const {
    for (const std::uint32_t count : pages) {
      if (count > pages_max_) {
        return false;
      }
    }
    return true;
  }
  void take(const OwnerCounts& pages) {
    HC_CHECK(fits(pages));
    for (std::size_t i = 0; i < used_.size(); ++i) {
      used_[i] += pages[i];
    }
  }
  void give_back(const OwnerCounts& pages) {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      HC_CHECK(pages[i] <= used_[i]);
      used_[i] -= pages[i];
    }
  }

 private:
  std::uint32_t pages_max_;
  std::vector<std::uint32_t> used_;
};

}  // namespace hc
