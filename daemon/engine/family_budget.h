// SPDX-License-Identifier: Apache-2.0
// family_budget: how many pages the budgets hold of a family, and whether its tables fit in memory.
#pragma once

#include <cstdint>

#include "daemon/engine/family.h"
#include "daemon/store/slab_set.h"
#include "proto/result.h"

namespace hc {

// What the families before it take already.
struct BudgetUse {
  std::uint64_t l2_bytes = 0;
  std::uint64_t tables_bytes = 0;
  std::vector<std::uint64_t> volume_bytes;  // the least of each volume: headers and one step a slab
};

// Fills the family's pages_l2, shares, pages_max and tables_bytes. no_space in one line when not
// even one page fits, or when the tables take too much.
Result<void> plan_family(Family& family, const SpaceSetOptions& options, const BudgetUse& used);
// Adds what this family takes.
void add_use(BudgetUse& use, const Family& family);
SlabSpec slab_spec(const Family& family, std::uint32_t part, std::uint16_t volume);

}  // namespace hc
