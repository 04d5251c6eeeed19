// SPDX-License-Identifier: Apache-2.0
// family_budget: pages, slots and tables of a family.
#include "daemon/engine/family_budget.h"

#include <unistd.h>

#include <algorithm>

#include "daemon/engine/catalog.h"
#include "daemon/log/log.h"
#include "proto/blob_header.h"
#include "proto/budget.h"
#include "proto/check.h"
#include "proto/limits.h"
#include "proto/status_table_layout.h"
#include "shm/status_table_writer.h"

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
constexpr std::uint64_t kSlotTableBytes = 8 + 8 + 1 + kListLinkBytes + sizeof(PartRef);
constexpr std::uint64_t kFrameTableBytes = 16;

std::uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages < 0 || page_bytes < 0
             ? 0
             : static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

std::uint32_t reserve_of(const Family& family, const SpaceSetOptions& options,
                         std::uint64_t budget_bytes) {
  if (options.reserve_slots != 0) {
    return options.reserve_slots;
  }
  const auto pages =
      pages_for_slab_budget(family.descriptor, family.shards_on_node, budget_bytes, 0);
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(pages / 16, kReserveSlotsMin, kReserveSlotsMax));
}

std::vector<PartBudget> slots_of(const Family& family, std::uint16_t volume) {
  const VolumeShare& share = family.shares[volume];
  if (share.pages == 0) {
    return {};
  }
  return slots_for_pages(family.descriptor, family.shards_on_node, share.pages,
                         share.reserve_slots);
}

std::uint64_t least_bytes(const Family& family, std::uint16_t volume) {
  std::uint64_t total = 0;
  for (const PartBudget& part : slots_of(family, volume)) {
    total += kFirstSlotOffset +
             part.slot_bytes * SlabSet::slots_per_step(part.slot_bytes, part.slot_count);
  }
  return total;
}

// A volume that takes not one page of this family beside the others is left to them.
Result<void> plan_volumes(Family& family, const SpaceSetOptions& options, const BudgetUse& used) {
  const std::vector<std::uint64_t> volumes = options.volumes();
  std::uint64_t most = 0;
  std::uint64_t free_there = 0;
  bool any = false;
  for (std::uint16_t volume = 0; volume < volumes.size(); ++volume) {
    VolumeShare share;
    share.reserve_slots = reserve_of(family, options, volumes[volume]);
    share.pages = pages_for_slab_budget(family.descriptor, family.shards_on_node, volumes[volume],
                                        share.reserve_slots);
    if (share.pages == kPagesMax) {
      log_warn("space.l3_bounded", {{"key", "l3.l3_bytes"}, {"pages_max", kPagesMax}});
    }
    family.shares.push_back(share);
    const std::uint64_t others = volume < used.volume_bytes.size() ? used.volume_bytes[volume] : 0;
    const bool fits = share.pages > 0 && others + least_bytes(family, volume) <= volumes[volume];
    family.shares.back().pages = fits ? share.pages : 0;
    any = any || fits;
    if (volumes[volume] >= most) {
      most = volumes[volume];
      free_there = most - std::min(most, others);
    }
  }
  if (any) {
    return {};
  }
  const std::uint32_t reserve = reserve_of(family, options, most);
  const std::uint64_t needed =
      slab_bytes(slots_for_pages(family.descriptor, family.shards_on_node, 1, reserve));
  const std::string beside =
      free_there == most ? "" : ", other families leave " + std::to_string(free_there);
  return make_error(Code::no_space, "l3.l3_bytes = " + std::to_string(most) +
                                        ": one page of this space beside " +
                                        std::to_string(reserve) + " reserve slots takes " +
                                        std::to_string(needed) + beside);
}

Result<void> plan_frames(Family& family, const SpaceSetOptions& options, const BudgetUse& used) {
  const std::uint64_t page_bytes = frame_bytes_per_page(family.descriptor, family.shards_on_node);
  const std::uint64_t left = options.l2_bytes - std::min(options.l2_bytes, used.l2_bytes);
  const std::uint64_t bound = options.l2_family_bytes == 0 ? left : options.l2_family_bytes;
  family.pages_l2 = std::min(left, bound) / page_bytes;
  if (family.pages_l2 > 0) {
    return {};
  }
  const std::string given =
      used.l2_bytes == 0 ? ""
                         : ", other families have " + std::to_string(used.l2_bytes) +
                               " (l2.family_bytes bounds what one of them takes)";
  return make_error(Code::no_space, "l2.l2_bytes = " + std::to_string(options.l2_bytes) +
                                        ": one page of this space takes " +
                                        std::to_string(page_bytes) + given);
}

// Small payloads make many pages of a large budget. What the tables would take is known before one
// of them is built.
Result<void> plan_tables(Family& family, const SpaceSetOptions& options, const BudgetUse& used) {
  const std::uint64_t parts = family.parts.size();
  std::uint64_t frames = 0;
  for (std::uint16_t kind = 0; kind < family.descriptor.kinds.size(); ++kind) {
    frames += frames_for_pages(family.descriptor, family.shards_on_node, kind, family.pages_l2);
  }
  std::uint64_t slots = 0;
  std::uint64_t pages = frames;
  for (std::uint16_t volume = 0; volume < family.shares.size(); ++volume) {
    for (const PartBudget& part : slots_of(family, volume)) {
      slots += part.slot_count;
    }
    // Pages that can exist at once: a live set twice over (parts of different pages may be stored
    // by different ranks), and what only L2 holds. A full catalog evicts.
    const VolumeShare& share = family.shares[volume];
    pages += share.pages == 0 ? 0 : 2 * (share.pages + share.reserve_slots);
  }
  const std::string sizes = "l3.l3_bytes = " + std::to_string(options.volumes().front());
  const std::uint64_t pages_max = kNone32 / parts / kFamiliesMax - 1;
  if (pages > pages_max || frames >= kNone32) {
    return make_error(Code::no_space, sizes + " and l2.l2_bytes = " +
                                          std::to_string(options.l2_bytes) + " make " +
                                          std::to_string(pages) +
                                          " pages of this space, the daemon can track " +
                                          std::to_string(pages_max));
  }
  family.tables_bytes = pages * (kPageTableBytes + parts * kPartTableBytes) +
                        status_table_bytes(status_capacity_for(pages)) + slots * kSlotTableBytes +
                        frames * kFrameTableBytes;
  const std::uint64_t bound = options.tables_bytes_max != 0
                                  ? options.tables_bytes_max
                                  : std::max(memory_bytes() / 8, options.l2_bytes);
  if (used.tables_bytes + family.tables_bytes > bound) {
    const std::string others =
        used.tables_bytes == 0 ? ""
                               : ", those of other families " + std::to_string(used.tables_bytes);
    return make_error(Code::no_space, sizes + ": the tables of " + std::to_string(pages) +
                                          " pages of this space take " +
                                          std::to_string(family.tables_bytes) +
                                          " bytes of memory" + others + ", " +
                                          std::to_string(bound) + " are allowed");
  }
  family.pages_max = static_cast<std::uint32_t>(pages);
  return {};
}

}  // namespace

Result<void> plan_family(Family& family, const SpaceSetOptions& options, const BudgetUse& used) {
  HC_TRY_VOID(plan_volumes(family, options, used));
  HC_TRY_VOID(plan_frames(family, options, used));
  return plan_tables(family, options, used);
}

void add_use(BudgetUse& use, const Family& family) {
  use.l2_bytes += family.arenas == nullptr ? 0 : family.arenas->bytes();
  use.tables_bytes += family.tables_bytes;
  use.volume_bytes.resize(family.shares.size());
  for (std::uint16_t volume = 0; volume < family.shares.size(); ++volume) {
    use.volume_bytes[volume] += least_bytes(family, volume);
  }
}

SlabSpec slab_spec(const Family& family, std::uint32_t part, std::uint16_t volume) {
  std::uint32_t slots = 0;
  for (const PartBudget& entry : slots_of(family, volume)) {
    if (family.kind_of(entry.part) == family.kind_of(part)) {
      slots = entry.slot_count;  // equal for every shard of the kind
    }
  }
  return SlabSpec{family.id, family.parts[part].kind, family.parts[part].shard, volume,
                  family.payload_bytes(part), slots};
}

}  // namespace hc
