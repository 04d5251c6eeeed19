// SPDX-License-Identifier: Apache-2.0
// commit_marks: two blocks of each slab.
#include "daemon/store/commit_marks.h"

#include <algorithm>

#include "daemon/store/aligned_buffer.h"
#include "proto/store_notes.h"

namespace hc {

Result<FoundMarks> read_commit_marks(Disk& disk, const SlabSet& slabs, const Uuid& store,
                                     std::uint64_t epoch) {
  FoundMarks found;
  AlignedBuffer blocks(kMarkCopies * std::size_t{kBlockBytes});
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    HC_TRY_VOID(disk.read_now(slabs.slab(SlabId{id}).file(), kMarkOffset, blocks.bytes()));
    const auto sequence = parse_commit_marks(blocks.bytes(), store, epoch);
    found.unsure = found.unsure || !sequence;
    found.sequence = std::max(found.sequence, sequence ? *sequence : 0);
  }
  return found;
}

}  // namespace hc
