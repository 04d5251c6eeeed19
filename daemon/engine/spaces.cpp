// SPDX-License-Identifier: Apache-2.0
// spaces: binding a family to the store's memory and disk.
#include "daemon/engine/spaces.h"

#include <unistd.h>

#include <algorithm>

#include "daemon/engine/catalog.h"
#include "daemon/log/log.h"
#include "proto/check.h"
#include "proto/limits.h"
#include "proto/status_table_layout.h"

namespace hc {

namespace {

// Free slots beside the live ones: they carry the writes between an eviction and the commit that
// makes its slots free again.
constexpr std::uint32_t kReserveSlotsMin = 16;
constexpr std::uint32_t kReserveSlotsMax = 4096;

// Bytes of tables per page (record, free list, L2 order, up to four cells of the page table), part,
// slot (state, free list, order and owner) and frame.
constexpr std::uint64_t kListLinkBytes = 12;
constexpr std::uint64_t kPageTableBytes = sizeof(Page) + kListLinkBytes + 5 * 4;
constexpr std::uint64_t kPartTableBytes = sizeof(Part) + 2 * kListLinkBytes;
constexpr std::uint64_t kSlotTableBytes = 8 + 4 + 1 + kListLinkBytes + sizeof(PartRef);
constexpr std::uint64_t kFrameTableBytes = 16;

std::uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages < 0 || page_bytes < 0
             ? 0
             : static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

Error second_family(const Family& bound) {
  return make_error(Code::refused,
                    "space: this store serves the family " +
                        to_hex(bound.id.bytes).substr(0, 16) + " (model " +
                        bound.descriptor.model + "); another family needs another volume, or "
                        "a clear of this one without sessions");
}

}  // namespace

SpaceSet::SpaceSet(SlabSet& slabs, SuperblockFile& superblock, const SpaceSetOptions& options)
    : slabs_(slabs), superblock_(superblock), options_(options) {}

std::uint32_t SpaceSet::automatic_reserve(const SpaceDescriptor& descriptor,
                                          std::uint16_t shards_on_node) const {
  if (options_.reserve_slots != 0) {
    return options_.reserve_slots;
  }
  const auto pages = pages_for_slab_budget(descriptor, shards_on_node, options_.l3_bytes, 0);
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(pages / 16, kReserveSlotsMin, kReserveSlotsMax));
}

Result<void> SpaceSet::bind(const SpaceDescriptor& descriptor, std::uint16_t shards_on_node) {
  auto family = std::make_unique<Family>();
  family->id = make_family_id(descriptor);
  family->descriptor = descriptor;
  family->shards_on_node = shards_on_node;
  family->parts = parts_of(descriptor);
  family->reserve_slots = automatic_reserve(descriptor, shards_on_node);
  HC_TRY_VOID(check_budgets(*family));
  HC_TRY_VOID(check_tables(*family));
  HC_TRY_VOID(create_frames(*family));
  family->slabs.resize(family->parts.size());
  family_ = std::move(family);
  return {};
}

// How many pages the budgets take: at least one each.
Result<void> SpaceSet::check_budgets(Family& family) const {
  family.pages_l3 = pages_for_slab_budget(family.descriptor, family.shards_on_node,
                                          options_.l3_bytes, family.reserve_slots);
  if (family.pages_l3 == 0) {
    const std::uint64_t needed = slab_bytes(
        slots_for_pages(family.descriptor, family.shards_on_node, 1, family.reserve_slots));
    return make_error(Code::no_space, "l3.l3_bytes = " + std::to_string(options_.l3_bytes) +
                                          ": one page of this space beside " +
                                          std::to_string(family.reserve_slots) +
                                          " reserve slots takes " + std::to_string(needed));
  }
  if (family.pages_l3 == kPagesMax) {
    log_warn("space.l3_bounded", {{"key", "l3.l3_bytes"}, {"pages_max", kPagesMax}});
  }
  const std::uint64_t page_bytes = frame_bytes_per_page(family.descriptor, family.shards_on_node);
  family.pages_l2 = options_.l2_bytes / page_bytes;
  if (family.pages_l2 == 0) {
    return make_error(Code::no_space, "l2.l2_bytes = " + std::to_string(options_.l2_bytes) +
                                          ": one page of this space takes " +
                                          std::to_string(page_bytes));
  }
  return {};
}

// Small payloads make many pages of a large budget. What the tables would take is known before one
// of them is built.
Result<void> SpaceSet::check_tables(Family& family) {
  const std::uint64_t parts = family.parts.size();
  std::uint64_t frames = 0;
  for (std::uint16_t kind = 0; kind < family.descriptor.kinds.size(); ++kind) {
    frames += frames_for_pages(family.descriptor, family.shards_on_node, kind, family.pages_l2);
  }
  std::uint64_t slots = 0;
  for (const PartBudget& part : slots_for_pages(family.descriptor, family.shards_on_node,
                                                family.pages_l3, family.reserve_slots)) {
    slots += part.slot_count;
  }
  // Pages that can exist at once: a live set twice over (parts of different pages may be stored by
  // different ranks), and what only L2 holds. A full catalog evicts.
  const std::uint64_t pages = 2 * (family.pages_l3 + family.reserve_slots) + frames;
  const std::uint64_t pages_max = kNone32 / parts - 1;
  if (pages > pages_max || frames >= kNone32) {
    return make_error(Code::no_space,
                      "l3.l3_bytes = " + std::to_string(options_.l3_bytes) + " and l2.l2_bytes = " +
                          std::to_string(options_.l2_bytes) + " make " + std::to_string(pages) +
                          " pages of this space, the daemon can track " +
                          std::to_string(pages_max));
  }
  const std::uint64_t needed = pages * (kPageTableBytes + parts * kPartTableBytes) +
                               status_table_bytes(status_capacity_for(pages)) +
                               slots * kSlotTableBytes + frames * kFrameTableBytes;
  const std::uint64_t bound = options_.tables_bytes_max != 0
                                  ? options_.tables_bytes_max
                                  : std::max(memory_bytes() / 8, options_.l2_bytes);
  if (needed > bound) {
    return make_error(Code::no_space,
                      "l3.l3_bytes = " + std::to_string(options_.l3_bytes) + ": the tables of " +
                          std::to_string(pages) + " pages of this space take " +
                          std::to_string(needed) + " bytes of memory, " + std::to_string(bound) +
                          " are allowed");
  }
  pages_max_ = static_cast<std::uint32_t>(pages);
  return {};
}

Result<void> SpaceSet::create_frames(Family& family) {
  std::vector<KindFrames> kinds;
  for (std::size_t kind = 0; kind < family.descriptor.kinds.size(); ++kind) {
    const auto number = static_cast<std::uint16_t>(kind);
    const auto frames = frames_for_pages(family.descriptor, family.shards_on_node, number,
                                         family.pages_l2);
    HC_CHECK(frames < kNone32);  // check_tables
    kinds.push_back({number, family.descriptor.kinds[kind].payload_bytes,
                     static_cast<std::uint32_t>(frames)});
  }
  auto arenas = ArenaSet::create(kinds, options_.arenas);
  HC_TRY(arenas);
  family.arenas = std::make_unique<ArenaSet>(std::move(*arenas));
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    family.frames.emplace_back(*family.arenas, static_cast<std::uint16_t>(kind));
  }
  return {};
}

Result<SpaceNo> SpaceSet::add(const SpaceDescriptor& descriptor, std::uint16_t shards_on_node) {
  const auto world = static_cast<std::uint16_t>(descriptor.world.shards());
  if (shards_on_node > world) {
    return make_error(Code::bad_argument, "shards_on_node = " + std::to_string(shards_on_node) +
                                              ": must be 0.." + std::to_string(world));
  }
  const std::uint16_t shards = shards_on_node == 0 ? world : shards_on_node;
  const FamilyId family_id = make_family_id(descriptor);
  if (family_ != nullptr && family_->id != family_id) {
    return second_family(*family_);
  }
  if (family_ != nullptr && family_->shards_on_node != shards) {
    return make_error(Code::refused, "shards_on_node = " + std::to_string(shards) +
                                         ": this store is split for " +
                                         std::to_string(family_->shards_on_node));
  }
  const bool binds = family_ == nullptr;
  if (binds) {
    if (auto bound = bind(descriptor, shards); !bound) {
      unbind();
      return bound.error();
    }
  }
  auto added = add_to_family(descriptor);
  if (!added && binds) {
    unbind();  // else the store would serve a family that no space of it uses
  }
  return added;
}

void SpaceSet::unbind() {
  spaces_.clear();
  family_.reset();
  pages_max_ = 0;
  slabs_judged_ = false;
}

Result<SpaceNo> SpaceSet::add_to_family(const SpaceDescriptor& descriptor) {
  const SpaceId id = make_space_id(descriptor);
  auto number = superblock_.add_space(id);
  HC_TRY(number);
  if (find(*number) != nullptr) {
    return *number;
  }
  auto space = std::make_unique<Space>();
  space->number = *number;
  space->id = id;
  space->descriptor = descriptor;
  space->superblock_sequence = superblock_.sequence();
  for (const PartSpec& part : family_->parts) {
    space->tags.push_back(make_space_tag(id, part.shard));
  }
  StatusTableOptions status;
  status.capacity = status_capacity_for(pages_max_);
  status.space = id;
  status.key = options_.status_key;
  status.commit_memory = false;
  auto table = StatusTableWriter::create(status);
  HC_TRY(table);
  space->status = std::make_unique<StatusTableWriter>(std::move(*table));
  if (spaces_.size() <= number->value) {
    spaces_.resize(number->value + 1U);
  }
  spaces_[number->value] = std::move(space);
  return *number;
}

SlabSpec SpaceSet::slab_spec(std::uint32_t part) const {
  const auto budget = slots_for_pages(family_->descriptor, family_->shards_on_node,
                                      family_->pages_l3, family_->reserve_slots);
  std::uint32_t slots = 0;
  for (const PartBudget& entry : budget) {
    if (family_->kind_of(entry.part) == family_->kind_of(part)) {
      slots = entry.slot_count;  // equal for every shard of the kind
    }
  }
  return SlabSpec{family_->id, family_->parts[part].kind, family_->parts[part].shard,
                  family_->payload_bytes(part), slots};
}

Result<void> SpaceSet::open_part(std::uint32_t part) {
  if (family_->slabs[part]) {
    return {};
  }
  auto slab = slabs_.open_or_create(slab_spec(part));
  HC_TRY(slab);
  family_->slabs[part] = *slab;
  return {};
}

Result<void> SpaceSet::open_slabs(std::uint16_t shard) {
  if (!slabs_judged_) {
    // The family was bound by this attach and not by the index: no row names any slab.
    std::vector<SlabSpec> specs;
    for (std::uint32_t part = 0; part < family_->parts.size(); ++part) {
      specs.push_back(slab_spec(part));
    }
    HC_TRY_VOID(slabs_.keep_only(specs));
    slabs_judged_ = true;
  }
  for (std::uint32_t part = 0; part < family_->parts.size(); ++part) {
    const std::uint16_t owner = family_->parts[part].shard;
    if (owner == shard || owner == kShardReplicated) {
      HC_TRY_VOID(open_part(part));
    }
  }
  return {};
}

Result<void> SpaceSet::open_existing_slabs() {
  slabs_judged_ = true;
  for (std::uint32_t part = 0; part < family_->parts.size(); ++part) {
    auto slab = slabs_.open_existing(slab_spec(part));
    if (slab) {
      family_->slabs[part] = *slab;
    } else if (slab.error().code != Code::not_found && slab.error().code != Code::corrupt) {
      return slab.error();
    } else if (slab.error().code == Code::corrupt) {
      log_warn("slab.lost", {{"part", part}, {"reason", slab.error().message()}});
    }
  }
  return {};
}

Result<void> SpaceSet::forget_family() {
  unbind();
  drop_absent_numbers();
  return slabs_.remove_all();
}

Result<void> SpaceSet::abandon_family() {
  unbind();
  return slabs_.close_all();
}

void SpaceSet::drop_absent_numbers() {
  for (std::uint32_t number = superblock_.current().space_count; number-- > 0;) {
    const bool known = number < superblock_.current().space_count &&
                       superblock_.current().spaces[number].space != SpaceId{};
    if (known && find(SpaceNo{number}) == nullptr) {
      superblock_.drop_space(SpaceNo{number});
    }
  }
}

Space* SpaceSet::find(SpaceNo number) {
  return number.value < spaces_.size() ? spaces_[number.value].get() : nullptr;
}

std::vector<Space*> SpaceSet::all() {
  std::vector<Space*> out;
  for (const auto& space : spaces_) {
    if (space != nullptr) {
      out.push_back(space.get());
    }
  }
  return out;
}

Slab* SpaceSet::slab_of(std::uint32_t part) {
  const auto& id = family_->slabs[part];
  return id ? &slabs_.slab(*id) : nullptr;
}

}  // namespace hc
