// SPDX-License-Identifier: Apache-2.0
// rebuild: decides about every blob that was read.
#include "daemon/engine/rebuild.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/engine/works.h"
#include "proto/check.h"

namespace hc {

Rebuild::Rebuild(Works& works, const std::vector<SlotRef>& named)
    : works_(works),
      reads_(std::size_t{kReadsMax} * works.core.io.volume_count()),
      reads_of_(works.core.io.volume_count()),
      slabs_(works.core.spaces->slabs().count()),
      newest_(works.core.superblock->newest_generation().value) {
  Core& core = works_.core;
  named_.resize(slabs_);
  cursors_.resize(slabs_);
  by_access_.resize(slabs_);
  for (std::size_t read = reads_.size(); read-- > 0;) {
    free_reads_.push_back(static_cast<std::uint32_t>(read));
  }
  for (std::uint16_t id = 0; id < slabs_; ++id) {
    const Slab& slab = core.spaces->slabs().slab(SlabId{id});
    progress_.total += slab.unscanned_count();
    named_[id].resize(slab.slot_count());
    LruList& order = core.slot_order.order(SlabId{id});
    for (std::uint32_t slot = order.oldest(); slot != kNone32; slot = order.newer_than(slot)) {
      const PageId page = core.catalog->page_of(core.slot_order.owner(SlabId{id}, slot));
      by_access_[id].emplace(core.catalog->page(page).last_access, slot);
    }
  }
  for (const SlotRef& at : named) {
    named_[at.slab.value][at.slot.value] = true;
  }
}

bool Rebuild::done() const {
  return idle() && repeats_.empty() && waiting_.empty() && late_.empty() &&
         first_slab_ == slabs_;
}

void Rebuild::stop() {
  for (const std::uint32_t read : std::exchange(repeats_, {})) {
    end_read(read);
  }
  waiting_.clear();
  late_.clear();
  first_slab_ = slabs_;
}

void Rebuild::turn() {
  look_again();
  if (!late_.empty() && all_read()) {
    place_late();
  }
  while (repeat_one() || read_next()) {
  }
}

std::uint32_t Rebuild::part_of(SlabId slab) const {
  const Family& family = works_.core.family_of(slab);
  const auto found =
      std::find(family.slabs.begin(), family.slabs.end(), std::optional<SlabId>(slab));
  HC_CHECK(found != family.slabs.end());
  return static_cast<std::uint32_t>(found - family.slabs.begin()) / family.volume_count();
}

// The tag of a header names its space, and the checksum proves it. Of two spaces that both fit
// nothing is known.
std::optional<SpaceNo> Rebuild::space_of(const SlotRef& at, std::span<const std::uint8_t> block,
                                         BlobHeader& header) const {
  Core& core = works_.core;
  const Family& family = core.family_of(at.slab);
  const std::uint32_t part = part_of(at.slab);
  BlobHeader raw{};
  std::memcpy(&raw, block.data(), sizeof raw);
  std::optional<SpaceNo> out;
  for (const Space* space : core.spaces->all()) {
    BlobHeader parsed{};
    if (space->family != family.number || space->tags[part] != raw.space_tag ||
        parse_header_block(block, core.superblock->seed_of(space->number), parsed) !=
            BlobVerdict::good) {
      continue;
    }
    if (out) {
      return std::nullopt;
    }
    out = space->number;
    header = parsed;
  }
  const BlobExpectation expected{family.kind_of(part), family.payload_bytes(part),
                                 header.page_hash,     raw.space_tag,
                                 at.slot,              Generation{header.generation}};
  std::span<const std::uint8_t> metadata;
  const bool good = out && judge_header(header, expected) == BlobVerdict::good &&
                    read_metadata(block, metadata) == BlobVerdict::good;
  return good ? out : std::nullopt;
}

void Rebuild::judge(const SlotRef& at, std::span<const std::uint8_t> block) {
  Found found{at, {}, {}};
  const auto space = space_of(at, block, found.header);
  found.space = space.value_or(SpaceNo{});
  if (!space || !stands(found)) {
    settle_free(at);
    return;
  }
  late_is_sorted_ = false;
  if (!place(found)) {
    waiting_.push_back(found);
  }
}

// A slot that a row names which is being erased waits for that commit.
void Rebuild::settle_free(const SlotRef& at) {
  Slab& slab = works_.core.spaces->slabs().slab(at.slab);
  if (named_[at.slab.value][at.slot.value]) {
    slab.mark_limbo(at.slot);
    works_.commit.add_limbo(at);
  } else {
    slab.free_unscanned(at.slot);
  }
}

// Of a blob that stands. False: it can't be decided yet.
bool Rebuild::place(const Found& found) {
  Core& core = works_.core;
  const PageHash& hash = found.header.page_hash;
  PageId page = core.catalog->find(found.space, hash);
  if (page != kNoPage) {
    const PartRef ref = core.catalog->ref(page, part_of(found.at.slab));
    const Part& part = core.catalog->part(ref);
    const bool wanted = part.l2 == L2State::filling || part.first_waiter != kNone32 ||
                        core.catalog->unsettled().contains(ref.value);
    if (part.l3 == L3State::absent && wanted) {
      return false;
    }
    works_.admission.let_go(ref);  // held back from a disk that has it
    const bool later = part.l3 >= L3State::written &&
                       generation_is_before(part.generation.value, found.header.generation);
    if (part.l3 != L3State::absent && !later) {
      settle_free(found.at);
      return true;
    }
    if (later && part.reading) {
      return false;  // what is being read is judged by the slot that the part has now
    }
    if (later) {
      leave_slot(ref);
    }
  } else if (works_.pages.records_from_memory(core.family_of(found.at.slab), 1)) {
    page = works_.pages.find_or_create(found.space, hash);
    core.catalog->page(page).last_access = access_of(found.header.generation);
  } else {
    late_.push_back(found);
    return true;
  }
  raise_access(page, access_of(found.header.generation));
  adopt(page, found);
  return true;
}

// The part has a later blob in another slot.
void Rebuild::leave_slot(PartRef ref) {
  Core& core = works_.core;
  const SlabId slab = core.catalog->part(ref).slab;
  const SlotId old = core.catalog->part(ref).slot;
  works_.commit.count_written(core.catalog->part(ref).l3 == L3State::written ? -1 : 0);
  core.slot_order.order(slab).remove(old.value);
  core.spaces->slabs().slab(slab).mark_limbo(old);
  works_.commit.add_limbo({slab, old});
}

void Rebuild::adopt(PageId id, const Found& found) {
  Core& core = works_.core;
  const std::uint32_t at = part_of(found.at.slab);
  const PartRef ref = core.catalog->ref(id, at);
  Page& page = core.catalog->page(id);
  Part& part = core.catalog->part(ref);
  core.spaces->slabs().slab(found.at.slab).adopt_unscanned(
      found.at.slot, Generation{found.header.generation});
  // A killed daemon may have written it and not flushed: the next group does, and puts the row.
  part.l3 = L3State::written;
  works_.commit.count_written(1);
  works_.pages.unsettle(ref);
  part.slot = found.at.slot;
  part.slab = found.at.slab;
  part.generation = Generation{found.header.generation};
  const Family& family = core.family_of(id);
  const PartSpec& spec = family.parts[at];
  if (family.descriptor.kinds[spec.kind].placement == Placement::owned) {
    page.owner = spec.shard;  // an owned part is stored by its owner
  }
  const std::uint32_t newer = newer_neighbour(found.at.slab, page.last_access);
  core.slot_order.insert_older_than(*core.catalog, ref, newer);
  by_access_[found.at.slab.value].insert_or_assign(page.last_access, found.at.slot.value);
  works_.commit.mark_dirty(id);
  works_.pages.publish_status(id);
  ++progress_.adopted;
  ++core.counters.slots_adopted;
}

// Stores that were filling a part have published it, which makes its old blob stale, or given up.
void Rebuild::look_again() {
  const std::vector<Found> all = std::exchange(waiting_, {});
  for (const Found& found : all) {
    if (!stands(found)) {
      settle_free(found.at);
    } else if (!place(found)) {
      waiting_.push_back(found);
    }
  }
}

// What may have happened since it was read, too: its space was cleared, so that it is of an epoch
// that is over; its page was forgotten; or the flush that was to make it durable has failed.
bool Rebuild::stands(const Found& found) const {
  const Core& core = works_.core;
  const Generation generation{found.header.generation};
  return blob_header_crc(found.header, core.superblock->seed_of(found.space)) ==
             found.header.header_crc &&
         !core.notes->is_forgotten(found.space, found.header.page_hash, generation) &&
         !works_.spiller.is_legacy_lost(found.at.slab);
}

// A page is as new as its newest blob, all of its parts with it.
void Rebuild::raise_access(PageId id, std::uint64_t access) {
  Core& core = works_.core;
  Page& page = core.catalog->page(id);
  if (page.last_access >= access) {
    return;
  }
  page.last_access = access;
  for (std::uint32_t at = 0; at < core.catalog->parts_per_page(id); ++at) {
    const PartRef ref = core.catalog->ref(id, at);
    const Part& part = core.catalog->part(ref);
    // One that is being read, or that leaves its slot, stands in no order.
    if (part.l3 >= L3State::written && core.slot_order.order(part.slab).contains(part.slot.value)) {
      core.slot_order.order(part.slab).remove(part.slot.value);
      core.slot_order.insert_older_than(*core.catalog, ref, newer_neighbour(part.slab, access));
      by_access_[part.slab.value].insert_or_assign(access, part.slot.value);
    }
  }
}

// Older blobs have earlier generations. Accesses of this run are above all of them.
std::uint64_t Rebuild::access_of(std::uint32_t generation) const {
  return static_cast<std::uint32_t>(generation - newest_ - 1);
}

// The slot in the order of eviction before which an access belongs; what has moved since it was
// noted is passed over.
std::uint32_t Rebuild::newer_neighbour(SlabId slab, std::uint64_t access) {
  Core& core = works_.core;
  LruList& order = core.slot_order.order(slab);
  auto& noted = by_access_[slab.value];
  const auto access_at = [&](std::uint32_t slot) {
    return core.catalog->page(core.catalog->page_of(core.slot_order.owner(slab, slot))).last_access;
  };
  const auto stands = [&](const std::pair<const std::uint64_t, std::uint32_t>& entry) {
    return order.contains(entry.second) && access_at(entry.second) == entry.first;
  };
  auto at = noted.lower_bound(access);
  while (at != noted.end() && !stands(*at)) {
    at = noted.erase(at);
  }
  std::uint32_t newer = at != noted.end() ? at->second : order.oldest();
  bool found = at != noted.end();
  while (!found && at != noted.begin()) {
    --at;
    found = stands(*at);
    newer = found ? order.newer_than(at->second) : newer;
    at = found ? at : noted.erase(at);
  }
  // Slots that were never noted may stand between: parts that this run has written.
  for (int looks = 0; looks < SlotOrder::kLooksMax && newer != kNone32; ++looks) {
    if (access_at(newer) >= access) {
      break;
    }
    newer = order.newer_than(newer);
  }
  for (int looks = 0; looks < SlotOrder::kLooksMax; ++looks) {
    const std::uint32_t older = newer == kNone32 ? order.newest() : order.older_than(newer);
    if (older == kNone32 || access_at(older) <= access) {
      break;
    }
    newer = older;
  }
  return newer;
}

}  // namespace hc
