// SPDX-License-Identifier: Apache-2.0
// spaces: the family this store serves, its arenas and slabs, and the spaces in it.
//
// Owner: the reactor thread. Binding a family and opening a slab block; they happen at start and at
// the first attach that needs them.
// Invariants:
//   - one family per store; a second one is refused in one line
//   - the parts of all spaces of a family are the same, so frames and slots serve every space
//   - the tables of a family (pages, parts, slots) never take more than tables_bytes_max
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/counters.h"
#include "daemon/pool/frame_pool.h"
#include "daemon/store/slab_set.h"
#include "daemon/store/superblock_file.h"
#include "proto/budget.h"
#include "proto/space.h"
#include "shm/status_table_writer.h"

namespace hc {

struct SpaceSetOptions {
  std::uint64_t l2_bytes = 0;
  std::uint64_t l3_bytes = 0;
  std::uint32_t reserve_slots = 0;   // 0: automatic
  // Memory for tables of pages and slots; 0: an eighth of the machine's memory or l2_bytes,
  // whichever is larger.
  std::uint64_t tables_bytes_max = 0;
  std::uint64_t status_key = 0;      // of the status tables; see status_home
  ArenaOptions arenas;
};

struct Family {
  FamilyId id;
  SpaceDescriptor descriptor;            // of its first space
  std::uint16_t shards_on_node = 0;
  std::vector<PartSpec> parts;
  std::uint64_t pages_l2 = 0;            // pages that the frames hold
  std::uint64_t pages_l3 = 0;            // live pages that the slabs hold
  std::uint32_t reserve_slots = 0;
  std::unique_ptr<ArenaSet> arenas;
  std::vector<FramePool> frames;         // by kind
  std::vector<std::optional<SlabId>> slabs;  // by part; opened when a rank of the shard attaches
  std::uint16_t kind_of(std::uint32_t part) const { return parts[part].kind; }
  std::uint32_t payload_bytes(std::uint32_t part) const {
    return descriptor.kinds[parts[part].kind].payload_bytes;
  }
};

struct Space {
  SpaceNo number{};
  SpaceId id;
  SpaceDescriptor descriptor;
  std::vector<std::uint32_t> tags;       // by part
  std::unique_ptr<StatusTableWriter> status;
  std::uint64_t superblock_sequence = 0; // rows may be committed once this is durable
  bool in_index = false;
  std::uint64_t pages = 0;
};

class SpaceSet {
 public:
  SpaceSet(SlabSet& slabs, SuperblockFile& superblock, const SpaceSetOptions& options);

  // Binds the family of this space when the store has none, creates its arenas, and adds the
  // space. Errors: refused (another family, another split), no_space, bad_argument.
  Result<SpaceNo> add(const SpaceDescriptor& descriptor, std::uint16_t shards_on_node);
  // Opens the slabs that a rank of this shard needs.
  Result<void> open_slabs(std::uint16_t shard);
  // Recovery: opens the slabs of the bound family that exist.
  Result<void> open_existing_slabs();
  // An empty store forgets its family, so that another one may come: its slabs are removed, and the
  // numbers of its spaces end.
  Result<void> forget_family();
  // A cold start that failed: nothing of the family is left in memory, its slabs are closed.
  Result<void> abandon_family();
  // Nobody uses this space now: its status table goes. It may be added again under its number.
  void drop(SpaceNo number) { spaces_[number.value].reset(); }
  // The store was emptied: numbers of spaces that are not here may go to others.
  void drop_absent_numbers();

  bool bound() const { return family_ != nullptr; }
  Family& family() { return *family_; }
  const Family& family() const { return *family_; }
  Space& space(SpaceNo number) { return *spaces_[number.value]; }
  Space* find(SpaceNo number);
  std::vector<Space*> all();
  SlabSet& slabs() { return slabs_; }
  Slab* slab_of(std::uint32_t part);

  std::uint32_t pages_max() const { return pages_max_; }
  const SpaceSetOptions& options() const { return options_; }

 private:
  Result<void> bind(const SpaceDescriptor& descriptor, std::uint16_t shards_on_node);
  Result<void> check_budgets(Family& family) const;
  Result<void> check_tables(Family& family);
  Result<SpaceNo> add_to_family(const SpaceDescriptor& descriptor);
  void unbind();
  Result<void> create_frames(Family& family);
  Result<void> open_part(std::uint32_t part);
  SlabSpec slab_spec(std::uint32_t part) const;
  std::uint32_t automatic_reserve(const SpaceDescriptor& descriptor,
                                  std::uint16_t shards_on_node) const;

  SlabSet& slabs_;
  SuperblockFile& superblock_;
  SpaceSetOptions options_;
  std::unique_ptr<Family> family_;
  std::vector<std::unique_ptr<Space>> spaces_;  // by SpaceNo; holes are null
  std::uint32_t pages_max_ = 0;
  bool slabs_judged_ = false;  // the store's slab files are those of the bound family
};

}  // namespace hc
