// SPDX-License-Identifier: Apache-2.0
// spaces: binding families to the store's memory and disks.
#include "daemon/engine/spaces.h"

#include <algorithm>

#include "daemon/engine/family_budget.h"
#include "daemon/log/log.h"
#include "proto/budget.h"
#include "proto/check.h"
#include "proto/limits.h"
#include "proto/status_table_layout.h"

namespace hc {

SpaceSet::SpaceSet(SlabSet& slabs, SuperblockFile& superblock, const SpaceSetOptions& options)
    : slabs_(slabs), superblock_(superblock), options_(options) {}

Family* SpaceSet::find_family(const FamilyId& id) {
  const auto found = std::find_if(families_.begin(), families_.end(),
                                  [&id](const auto& family) { return family->id == id; });
  return found == families_.end() ? nullptr : found->get();
}

Result<void> SpaceSet::bind(const SpaceDescriptor& descriptor, std::uint16_t shards_on_node) {
  if (families_.size() == kFamiliesMax) {
    return make_error(Code::refused, "space: this store serves " + std::to_string(kFamiliesMax) +
                                         " families (models with their layouts), the most it can: "
                                         "a clear without sessions ends them");
  }
  BudgetUse used;
  for (const auto& family : families_) {
    add_use(used, *family);
  }
  auto family = std::make_unique<Family>();
  family->number = FamilyNo{family_count()};
  family->id = make_family_id(descriptor);
  family->descriptor = descriptor;
  family->shards_on_node = shards_on_node;
  family->parts = parts_of(descriptor);
  HC_TRY_VOID(plan_family(*family, options_, used));
  HC_TRY_VOID(create_frames(*family));
  family->slabs.resize(family->parts.size() * family->shares.size());
  families_.push_back(std::move(family));
  return {};
}

Result<void> SpaceSet::create_frames(Family& family) {
  std::vector<KindFrames> kinds;
  for (std::size_t kind = 0; kind < family.descriptor.kinds.size(); ++kind) {
    const auto number = static_cast<std::uint16_t>(kind);
    const auto frames = frames_for_pages(family.descriptor, family.shards_on_node, number,
                                         family.pages_l2);
    HC_CHECK(frames < kNone32);  // plan_family
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
  const bool binds = find_family(family_id) == nullptr;
  if (binds) {
    HC_TRY_VOID(bind(descriptor, shards));
  }
  const Family& family = *find_family(family_id);
  if (family.shards_on_node != shards) {
    return make_error(Code::refused, "shards_on_node = " + std::to_string(shards) +
                                         ": this family is split for " +
                                         std::to_string(family.shards_on_node));
  }
  auto added = add_to_family(family, descriptor);
  if (!added && binds) {
    families_.pop_back();  // else the store would serve a family that no space of it uses
  }
  return added;
}

void SpaceSet::unbind() {
  spaces_.clear();
  families_.clear();
  slab_families_.clear();
}

Result<SpaceNo> SpaceSet::add_to_family(const Family& family, const SpaceDescriptor& descriptor) {
  const SpaceId id = make_space_id(descriptor);
  auto number = superblock_.add_space(id);
  HC_TRY(number);
  if (find(*number) != nullptr) {
    return *number;
  }
  auto space = std::make_unique<Space>();
  space->number = *number;
  space->id = id;
  space->family = family.number;
  space->descriptor = descriptor;
  for (const PartSpec& part : family.parts) {
    space->tags.push_back(make_space_tag(id, part.shard));
  }
  StatusTableOptions status;
  status.capacity = status_capacity_for(family.pages_max);
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

void SpaceSet::note_slab(Family& family, std::uint32_t part, std::uint16_t volume, SlabId slab) {
  family.slab(part, volume) = slab;
  slab_families_.resize(std::max<std::size_t>(slab_families_.size(), slab.value + std::size_t{1}));
  slab_families_[slab.value] = family.number;
}

Result<void> SpaceSet::open_slabs(FamilyNo number, std::uint16_t shard) {
  Family& at = family(number);
  for (std::uint32_t part = 0; part < at.parts.size(); ++part) {
    const std::uint16_t owner = at.parts[part].shard;
    for (std::uint16_t volume = 0; volume < at.shares.size(); ++volume) {
      const bool mine = owner == shard || owner == kShardReplicated;
      if (!mine || at.slab(part, volume) || at.shares[volume].pages == 0) {
        continue;
      }
      auto slab = slabs_.open_or_create(slab_spec(at, part, volume));
      HC_TRY(slab);
      note_slab(at, part, volume, *slab);
    }
  }
  return {};
}

Result<void> SpaceSet::open_existing_slabs() {
  for (const auto& at : families_) {
    for (std::uint32_t i = 0; i < at->slabs.size(); ++i) {
      const auto volume = static_cast<std::uint16_t>(i % at->shares.size());
      const auto part = static_cast<std::uint32_t>(i / at->shares.size());
      auto slab = slabs_.open_existing(slab_spec(*at, part, volume));
      if (slab) {
        note_slab(*at, part, volume, *slab);
      } else if (slab.error().code == Code::corrupt) {
        log_warn("slab.lost", {{"part", part}, {"reason", slab.error().message()}});
      } else if (slab.error().code != Code::not_found) {
        return slab.error();
      }
    }
  }
  return {};
}

Result<void> SpaceSet::forget_families() {
  unbind();
  drop_absent_numbers();
  return slabs_.remove_all();
}

Result<void> SpaceSet::abandon_families() {
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

std::uint64_t SpaceSet::arena_bytes() const {
  std::uint64_t total = 0;
  for (const auto& family : families_) {
    total += family->arenas->bytes();
  }
  return total;
}

}  // namespace hc
