// SPDX-License-Identifier: Apache-2.0
// spaces: the families that this store serves, their arenas and slabs, and the spaces in them.
//
// Owner: the reactor thread. Binding a family and opening a slab block; they happen at start and at
// the first attach that needs them.
// Invariants:
//   - at most kFamiliesMax families; one more is refused in one line. Families end together, when
//     the store is cleared and nobody is attached
//   - the parts of all spaces of a family are the same, so frames and slots serve every space
//   - frames and arenas belong to one family; slabs share the budget of their volume, step by step
//   - the tables of all families (pages, parts, slots) never take more than tables_bytes_max
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/counters.h"
#include "daemon/engine/family.h"
#include "daemon/store/slab_set.h"
#include "daemon/store/superblock_file.h"
#include "proto/space.h"
#include "shm/status_table_writer.h"

namespace hc {

struct Space {
  SpaceNo number{};
  SpaceId id;
  FamilyNo family{};
  SpaceDescriptor descriptor;
  std::vector<std::uint32_t> tags;       // by part
  std::unique_ptr<StatusTableWriter> status;
  std::uint64_t epoch_sequence = 0;      // of the superblock with its epoch, if that was raised
  bool in_index = false;
  std::uint64_t pages = 0;
};

class SpaceSet {
 public:
  SpaceSet(SlabSet& slabs, SuperblockFile& superblock, const SpaceSetOptions& options);

  // Binds the family of this space when it is not there, creates its arenas, and adds the space.
  // Errors: refused (too many families, another split), no_space, bad_argument.
  Result<SpaceNo> add(const SpaceDescriptor& descriptor, std::uint16_t shards_on_node);
  // Opens the slabs that a rank of this shard needs, on every volume that the family uses.
  Result<void> open_slabs(FamilyNo family, std::uint16_t shard);
  // Recovery: opens the slabs of the bound families that exist.
  Result<void> open_existing_slabs();
  // An empty store forgets its families: their slabs are removed, and the numbers of their spaces
  // end.
  Result<void> forget_families();
  // A cold start that failed: nothing of them is left in memory, their slabs are closed.
  Result<void> abandon_families();
  // Nobody uses this space now: its status table goes. It may be added again under its number.
  void drop(SpaceNo number) { spaces_[number.value].reset(); }
  // The store was emptied: numbers of spaces that are not here may go to others.
  void drop_absent_numbers();

  bool bound() const { return !families_.empty(); }
  std::uint16_t family_count() const { return static_cast<std::uint16_t>(families_.size()); }
  Family& family(FamilyNo number) const { return *families_[number.value]; }
  Family& family_of(SlabId slab) const { return family(slab_families_[slab.value]); }
  Space& space(SpaceNo number) { return *spaces_[number.value]; }
  Space* find(SpaceNo number);
  std::vector<Space*> all();
  SlabSet& slabs() { return slabs_; }
  const SlabSet& slabs() const { return slabs_; }
  std::uint64_t arena_bytes() const;  // of all families

  const SpaceSetOptions& options() const { return options_; }

 private:
  Family* find_family(const FamilyId& id);
  Result<void> bind(const SpaceDescriptor& descriptor, std::uint16_t shards_on_node);
  Result<SpaceNo> add_to_family(const Family& family, const SpaceDescriptor& descriptor);
  void unbind();
  Result<void> create_frames(Family& family);
  void note_slab(Family& family, std::uint32_t part, std::uint16_t volume, SlabId slab);

  SlabSet& slabs_;
  SuperblockFile& superblock_;
  SpaceSetOptions options_;
  std::vector<std::unique_ptr<Family>> families_;
  std::vector<std::unique_ptr<Space>> spaces_;  // by SpaceNo; holes are null
  std::vector<FamilyNo> slab_families_;         // by SlabId
};

}  // namespace hc
