// SPDX-License-Identifier: Apache-2.0
// row_pool: which rows of a rank's memory are free.
//
// Owner thread: the rank process's only thread. Invariants: a row has one owner; how many are free
// follows from calls that are the same on all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/check.h"

namespace hc {

class RowPool {
 public:
  // Rows first..count-1.
  RowPool(std::uint32_t first, std::uint32_t count) {
    HC_CHECK(first < count);
    for (std::uint32_t row = count; row > first; --row) {
      free_.push_back(row - 1);
    }
  }

  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }
  std::vector<std::uint32_t> take(std::size_t count) {
    HC_CHECK(count <= free_.size());
    const auto begin = free_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::uint32_t> rows(begin, free_.end());
    free_.erase(begin, free_.end());
    return rows;
  }
  void give_back(const std::vector<std::uint32_t>& rows) {
    free_.insert(free_.end(), rows.begin(), rows.end());
  }

 private:
  std::vector<std::uint32_t> free_;
};

}  // namespace hc
