// SPDX-License-Identifier: Apache-2.0
// store_audit: reads the files of a store that no daemon has open, and says what is wrong in them.
//
// At any moment of any daemon, killed or stopped: no slot is named by two rows, and the slot that a
// committed row names holds that row's blob or a wiped header, never another page's. After a
// clean stop every row names a live blob. The slot of a row has its space on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hc::test {

struct StoreAudit {
  std::uint64_t rows = 0;
  std::uint64_t live = 0;         // (row, part) whose slot holds just that blob
  std::uint64_t stale = 0;        // wiped, or of a space that has been cleared since
  std::uint64_t slots = 0;        // of all slab files
  std::vector<std::string> findings;
};

// The folders of the volumes, in their order.
StoreAudit audit_store(const std::vector<std::string>& volumes);

// Turns over a bit in the payload of a stored page. False: no row names it.
bool damage_payload(const std::vector<std::string>& volumes, std::uint64_t page);

// What the slab files of a folder take on the disk, whatever their length.
std::uint64_t slab_bytes_on_disk(const std::string& volume);

}  // namespace hc::test
