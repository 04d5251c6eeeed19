// SPDX-License-Identifier: Apache-2.0
// commit_marks: reads the commit marks of the slabs that are open. Blocking; at start only.
#pragma once

#include <cstdint>

#include "daemon/os/disk.h"
#include "daemon/store/slab_set.h"

namespace hc {

struct FoundMarks {
  std::uint64_t sequence = 0;  // the highest one under this store and epoch
  bool unsure = false;         // a slab's marks were written and can't be believed
};

Result<FoundMarks> read_commit_marks(Disk& disk, const SlabSet& slabs, const Uuid& store,
                                     std::uint64_t epoch);

}  // namespace hc
