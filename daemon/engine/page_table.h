// SPDX-License-Identifier: Apache-2.0
// page_table: (space, page hash) -> PageId, open addressing with backward-shift deletion.
//
// Owner: the reactor thread. Sized to twice the pages it can hold; a new family makes a new table.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "proto/check.h"
#include "proto/ids.h"

namespace hc {

class PageTable {
 public:
  explicit PageTable(std::uint32_t pages_max)
      : cells_(std::bit_ceil(std::uint64_t{pages_max} * 2 + 2), kNone32),
        mask_(cells_.size() - 1) {}

  template <typename Matches>
  PageId find(std::uint64_t key_hash, Matches&& matches) const {
    for (std::uint64_t at = key_hash & mask_; cells_[at] != kNone32; at = (at + 1) & mask_) {
      if (matches(PageId{cells_[at]})) {
        return PageId{cells_[at]};
      }
    }
    return kNoPage;
  }

  void insert(std::uint64_t key_hash, PageId page) {
    HC_CHECK(count_ * 2 <= mask_);
    std::uint64_t at = key_hash & mask_;
    while (cells_[at] != kNone32) {
      HC_CHECK(cells_[at] != page.value);
      at = (at + 1) & mask_;
    }
    cells_[at] = page.value;
    ++count_;
  }

  // `hash_of` gives the key hash of any page in the table.
  template <typename HashOf>
  void erase(std::uint64_t key_hash, PageId page, HashOf&& hash_of) {
    std::uint64_t hole = key_hash & mask_;
    while (cells_[hole] != page.value) {
      HC_CHECK(cells_[hole] != kNone32);
      hole = (hole + 1) & mask_;
    }
    --count_;
    for (std::uint64_t at = (hole + 1) & mask_; cells_[at] != kNone32; at = (at + 1) & mask_) {
      const std::uint64_t home = hash_of(PageId{cells_[at]}) & mask_;
      // The entry may move back only if its home does not lie between the hole and it.
      if (((at - home) & mask_) >= ((at - hole) & mask_)) {
        cells_[hole] = cells_[at];
        hole = at;
      }
    }
    cells_[hole] = kNone32;
  }

  std::uint64_t size() const { return count_; }

 private:
  std::vector<std::uint32_t> cells_;
  std::uint64_t mask_;
  std::uint64_t count_ = 0;
};

}  // namespace hc
