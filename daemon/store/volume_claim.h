// SPDX-License-Identifier: Apache-2.0
// volume_claim: which directories belong to a store, so that a foreign, a swapped or a missing one
// is told at start.
//
// The superblock lies in volume 0, the home of the store, and has a bit for every other volume that
// was claimed. Volume n has a file `volume-n` with a copy of the superblock: its uuid says whose it
// is, its name which one it is. The file is locked while the store is open.
#pragma once

#include <cstdint>

#include "daemon/os/disk.h"
#include "daemon/store/superblock_file.h"

namespace hc {

// `drop_missing`: a volume that was claimed and is not there, or not listed, is forgotten with
// what it held; otherwise it is refused in one line that names it.
Result<void> claim_volumes(Disk& disk, SuperblockFile& superblock, bool drop_missing);

}  // namespace hc
