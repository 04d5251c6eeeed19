// SPDX-License-Identifier: Apache-2.0
// slab_set: the slab files of one volume: opens, creates, checks and removes them.
//
// Owner: the reactor thread. Blocking file work happens at start, at the first attach of a family,
// at a clear that ends the family, and at stop.
// Invariants:
//   - the sum of the slab files' bytes never passes the budget
//   - every slab in the set carries this store's uuid; slabs of other families are not opened
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/os/disk.h"
#include "daemon/store/slab.h"
#include "proto/result.h"

namespace hc {

struct SlabSpec {
  FamilyId family;
  std::uint16_t kind = 0;
  std::uint16_t shard = 0;         // kShardReplicated for a replicated kind
  std::uint32_t payload_bytes = 0;
  std::uint32_t slot_count = 0;
};

class SlabSet {
 public:
  SlabSet(Disk& disk, const Uuid& store_uuid, std::uint64_t budget_bytes);

  // Opens the slab of this spec, or creates it. A file of the same name whose header does not
  // match (another geometry, store or family) is refused, not overwritten.
  Result<SlabId> open_or_create(const SlabSpec& spec);
  // Opens the slab of this spec with the geometry its header records; not_found when absent.
  Result<SlabId> open_existing(const SlabSpec& spec);
  // Removes every slab file but those of exactly these specs; used when an empty store takes a
  // family, so that slabs of another family or geometry do not eat the budget.
  Result<void> keep_only(const std::vector<SlabSpec>& specs);
  // Closes every slab of the set; the files stay. An error names the first that could not be
  // closed; the set is empty all the same.
  Result<void> close_all();
  // Closes and removes every slab of the set; used when an empty store changes its geometry.
  Result<void> remove_all();

  Slab& slab(SlabId id) { return *slabs_[id.value]; }
  const Slab& slab(SlabId id) const { return *slabs_[id.value]; }
  std::uint16_t count() const { return static_cast<std::uint16_t>(slabs_.size()); }
  std::optional<SlabId> find(std::uint16_t kind, std::uint16_t shard) const;
  std::uint64_t allocated_bytes() const { return allocated_bytes_; }
  std::uint64_t budget_bytes() const { return budget_bytes_; }

  static std::string file_name(const SlabSpec& spec);

 private:
  Result<SlabHeader> read_header(FileId file);
  Result<void> write_header(FileId file, const SlabHeader& header);
  Result<SlabId> adopt(FileId file, const SlabSpec& spec, bool any_geometry);
  Result<SlabId> create(const SlabSpec& spec);
  Result<bool> file_matches(const SlabSpec& spec);
  SlabHeader header_of(const SlabSpec& spec) const;

  Disk& disk_;
  Uuid store_uuid_;
  std::uint64_t budget_bytes_;
  std::uint64_t allocated_bytes_ = 0;
  std::vector<std::unique_ptr<Slab>> slabs_;
};

}  // namespace hc
