// SPDX-License-Identifier: Apache-2.0
// slab_set: the slab files of a store, volume by volume: opens, creates, checks and removes them,
// and keeps the bytes of each volume.
//
// Owner: the reactor thread. Blocking file work happens at start, at the first attach of a family,
// at a clear that ends every family, and at stop; steps come and go through the io queue.
// Invariants:
//   - the sum of a volume's steps and headers never passes its budget
//   - every slab in the set carries this store's uuid
// A slab file is sparse: its full length is there from the start, its space comes step by step. No
// map of its steps is kept on the disk. A start knows the rows: they name only slots of steps that
// had their space, because a step is given back only after the rows of its pages were erased. Every
// other range is punched before anything is granted, whatever a crash may have left there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/os/disk.h"
#include "daemon/store/slab.h"
#include "daemon/store/step_ledger.h"
#include "proto/result.h"

namespace hc {

struct SlabSpec {
  FamilyId family;
  std::uint16_t kind = 0;
  std::uint16_t shard = 0;         // kShardReplicated for a replicated kind
  std::uint16_t volume = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t slot_count = 0;    // the most it may ever have
};

class SlabSet {
 public:
  SlabSet(Disk& disk, const Uuid& store_uuid, const std::vector<std::uint64_t>& volume_bytes);

  // The slab of this spec: the one in the set, or a new file without a step. No row may name a slot
  // of it. A file of this name that another store wrote, or that somebody holds, is refused.
  Result<SlabId> open_or_create(const SlabSpec& spec);
  // Opens the slab of this spec with the geometry its header records, longer if the spec has more
  // slots; not_found when it is absent or has never got a step.
  Result<SlabId> open_existing(const SlabSpec& spec);
  // Of an opened slab: charges its header and the steps in `used` and makes sure of their space,
  // punches all other ranges.
  Result<void> settle(SlabId id, const std::vector<bool>& used);
  // Removes every slab file that is not in the set. Needs a store whose rows name none of them.
  Result<void> remove_others();
  // Closes every slab of the set; the files stay. An error names the first that could not be
  // closed; the set is empty all the same.
  Result<void> close_all();
  // Closes and removes every slab of the set.
  Result<void> remove_all();

  Slab& slab(SlabId id) { return *slabs_[id.value]; }
  const Slab& slab(SlabId id) const { return *slabs_[id.value]; }
  std::uint16_t count() const { return static_cast<std::uint16_t>(slabs_.size()); }
  std::optional<SlabId> find(const SlabSpec& spec) const;

  std::uint16_t volume_count() const { return static_cast<std::uint16_t>(ledgers_.size()); }
  StepLedger& ledger(std::uint16_t volume) { return ledgers_[volume]; }
  const StepLedger& ledger(std::uint16_t volume) const { return ledgers_[volume]; }
  std::uint64_t allocated_bytes() const;  // of all volumes

  // What the next step of a slab costs: with the first one comes the header.
  static std::uint64_t step_cost(const Slab& slab, std::uint32_t step);
  // The blocks that make a file a slab.
  static void fill_header(const SlabHeader& header, std::span<std::uint8_t> blocks);
  static constexpr std::uint64_t kHeaderBytes = std::uint64_t{kSlabHeaderCopies} * kBlockBytes;
  static std::string file_name(const SlabSpec& spec);
  // Steps of about a 64th of the slab, 1 GiB at most, one slot at least.
  static std::uint32_t slots_per_step(std::uint64_t slot_bytes, std::uint32_t slot_count);

 private:
  Result<SlabHeader> read_header(FileId file);
  Result<void> write_header(FileId file, const SlabHeader& header);
  Result<SlabId> adopt(FileId file, const SlabSpec& spec);
  Result<SlabId> create(const SlabSpec& spec);
  Result<void> keep_range(const Slab& slab, std::uint64_t offset_bytes,
                          std::uint64_t length_bytes);
  Result<void> clear_name(const SlabSpec& spec);
  Result<void> lengthen(FileId file, SlabHeader& header, const SlabSpec& spec);
  SlabHeader header_of(const SlabSpec& spec) const;
  SlabId add(FileId file, const SlabHeader& header);

  Disk& disk_;
  Uuid store_uuid_;
  std::vector<StepLedger> ledgers_;
  std::vector<std::unique_ptr<Slab>> slabs_;
};

}  // namespace hc
