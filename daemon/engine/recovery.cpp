// SPDX-License-Identifier: Apache-2.0
// recovery: joins the rows of the index with the headers of their slots.
#include "daemon/engine/recovery.h"

#include <algorithm>
#include <utility>

#include "daemon/log/log.h"
#include "daemon/store/recovery_table.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// Reads of one header that the kernel may refuse; then the slot counts as unreadable.
constexpr std::uint8_t kScanTriesMax = 16;
constexpr std::uint32_t kPrefetchAhead = 12;

}  // namespace

Result<void> Recovery::start(Disk& disk, const std::string& damage) {
  HC_TRY_VOID(add_noted_spaces());
  HC_TRY_VOID(read_index());
  note_missing_notes();
  HC_TRY_VOID(compare_with_marks(disk, damage));
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.slab, a.slot, a.ref) < std::tie(b.slab, b.slot, b.ref);
  });
  choose_reads();
  tries_.assign(firsts_.size(), 0);
  return settle_space(disk);
}

// The end of the candidates that name the same slot as `first`.
std::uint32_t Recovery::end_of_slot(std::uint32_t first) const {
  std::uint32_t end = first + 1;
  while (end < candidates_.size() && candidates_[end].slab == candidates_[first].slab &&
         candidates_[end].slot == candidates_[first].slot) {
    ++end;
  }
  return end;
}

// Two rows for one slot: only the header can decide, also in a lazy load.
void Recovery::choose_reads() {
  for (std::uint32_t first = 0; first < candidates_.size();) {
    const std::uint32_t end = end_of_slot(first);
    ++progress_.slots_total;
    if (lazily_ && end == first + 1) {
      Candidate& candidate = candidates_[first];
      candidate.live = true;
      ++progress_.live;
      unread_.push_back({candidate.ref, candidate.slab, candidate.slot, candidate.generation});
    } else {
      firsts_.push_back(first);
    }
    first = end;
  }
}

Result<void> Recovery::read_index() {
  Core& core = works_.core;
  Result<void> bound;
  bool ready = false;
  IndexVisitor visitor;
  visitor.on_space = [&](const IndexSpace& space) {
    const auto known = core.superblock->find_space(make_space_id(space.descriptor));
    if (!bound || !known || *known != space.number) {
      return;  // a space that this store's superblock does not know under this number
    }
    auto added = core.spaces->add(space.descriptor, space.shards_on_node);
    if (!added) {
      bound = added.error();
      return;
    }
    core.spaces->space(*added).in_index = true;
  };
  visitor.on_row = [&](const IndexRow& row) {
    if (!ready) {
      ready = true;
      bound = bound && core.spaces->bound() ? core.spaces->open_existing_slabs() : bound;
      works_.open_catalog();
    }
    if (bound) {
      add_row(row);
    }
  };
  visitor.on_damaged_row = [&](const Error&) { ++progress_.rows_damaged; };
  visitor.on_damaged_key = [&](const IndexErase& row) { unknown_rows_.push_back(row); };
  HC_TRY_VOID(core.index.visit(visitor));
  if (!ready && bound && core.spaces->bound()) {
    bound = core.spaces->open_existing_slabs();
    works_.open_catalog();
  }
  return bound;
}

void Recovery::add_row(const IndexRow& row) {
  Core& core = works_.core;
  clock_ = std::max(clock_, row.last_access);
  const bool room = core.catalog != nullptr && core.spaces->find(row.space) != nullptr &&
                    core.catalog->pages_free(core.spaces->space(row.space).family) > 0;
  if (!room || core.catalog->find(row.space, row.page) != kNoPage) {
    unknown_rows_.push_back({row.space, row.page});
    note_unknown_slots(row);
    return;
  }
  const PageId page = works_.pages.find_or_create(row.space, row.page);
  core.catalog->page(page).last_access = row.last_access;
  for (const IndexRowPart& part : row.parts) {
    const auto place = place_of(core.family_of(page), part);
    if (!place) {
      ++progress_.dropped;
      works_.commit.mark_dirty(page);
      continue;
    }
    if (core.notes->is_listed(row.space, row.page, Generation{part.generation})) {
      // It was being forgotten when the daemon died: that ends here.
      ++progress_.dropped;
      works_.commit.mark_dirty(page);
      unknown_slots_.push_back({place->slab, SlotId{part.slot}});
      continue;
    }
    core.catalog->page(page).owner = part.owner;
    candidates_.push_back({place->slab, SlotId{part.slot}, core.catalog->ref(page, place->part),
                           Generation{part.generation}, false});
  }
}

// The family's part that an entry of a row names, if its slot is there.
std::optional<Recovery::Place> Recovery::place_of(const Family& family,
                                                  const IndexRowPart& part) const {
  const SpaceDescriptor& space = family.descriptor;
  const bool replicated = part.shard == kShardReplicated;
  const bool fits = part.kind < space.kinds.size() && part.volume < family.shares.size() &&
                    replicated == (space.kinds[part.kind].placement == Placement::replicated) &&
                    (replicated || part.shard < space.world.shards());
  if (!fits) {
    return std::nullopt;
  }
  const std::uint32_t index =
      part_index(space, part.kind, replicated ? std::uint16_t{0} : part.shard);
  const auto& slab = family.slab(index, part.volume);
  const bool there = slab && part.slot < works_.core.spaces->slabs().slab(*slab).slot_count();
  return there ? std::optional(Place{index, *slab}) : std::nullopt;
}

// Of a space that nobody knows it can't be told whose slots it names: any family's.
void Recovery::note_unknown_slots(const IndexRow& row) {
  const SpaceSet& spaces = *works_.core.spaces;
  for (std::uint16_t number = 0; number < spaces.family_count(); ++number) {
    for (const IndexRowPart& part : row.parts) {
      if (const auto place = place_of(spaces.family(FamilyNo{number}), part)) {
        unknown_slots_.push_back({place->slab, SlotId{part.slot}});
      }
    }
  }
}

bool Recovery::turn() {
  Core& core = works_.core;
  while ((!repeats_.empty() || next_read_ < firsts_.size()) &&
         core.io.can_start(IoKind::read_header, volume_of_next())) {
    auto read = static_cast<std::uint32_t>(next_read_);
    if (repeats_.empty()) {
      ++next_read_;
    } else {
      read = repeats_.back();
      repeats_.pop_back();
    }
    const Candidate& candidate = candidates_[firsts_[read]];
    const Slab& slab = core.spaces->slabs().slab(candidate.slab);
    core.io.start_read_header(slab.file(), slab.slot_offset(candidate.slot),
                              io_cookie(IoOwner::scan, read));
  }
  if (reads_done_ < firsts_.size()) {
    return false;
  }
  install();
  HC_FAILPOINT(load_installed);
  report();
  return true;
}

std::uint16_t Recovery::volume_of_next() {
  const auto read = repeats_.empty() ? static_cast<std::uint32_t>(next_read_) : repeats_.back();
  const SlabId slab = candidates_[firsts_[read]].slab;
  return volume_of(works_.core.spaces->slabs().slab(slab).file());
}

// The result of every load is in the log; what was lost is a warning.
void Recovery::report() const {
  const std::uint64_t unknown = unknown_rows_.size();
  const bool lost = progress_.dropped + progress_.rows_damaged + unknown > 0;
  const std::initializer_list<LogField> fields{{"pages", progress_.pages},
                                               {"parts_live", progress_.live},
                                               {"parts_dropped", progress_.dropped},
                                               {"rows_damaged", progress_.rows_damaged},
                                               {"rows_unknown", unknown}};
  if (lost) {
    log_warn("load.incomplete", fields);
  } else {
    log_info("load.done", fields);
  }
}

void Recovery::on_scan(const IoEvent& event) {
  const std::uint32_t read = io_value(event.cookie);
  HC_CHECK(read < firsts_.size());
  if (event.overdue) {
    return;  // the device has not said no; the load waits for its word
  }
  // A read that the kernel could not take now says nothing about the slot; a volume that has failed
  // is not asked again.
  const bool refused = event.code != Code::ok && !event.not_tried && !event.device_failed();
  if (refused && ++tries_[read] < kScanTriesMax) {
    repeats_.push_back(read);
    return;
  }
  ++reads_done_;
  ++progress_.slots_scanned;
  const std::uint32_t first = firsts_[read];
  const std::uint32_t end = end_of_slot(first);
  bool taken = false;
  for (std::uint32_t i = first; i < end; ++i) {
    judge(candidates_[i], event);
    // Two rows with equal content for one slot can't be told apart; the first one keeps it.
    candidates_[i].live = candidates_[i].live && !taken;
    taken = taken || candidates_[i].live;
    progress_.live += candidates_[i].live ? 1U : 0U;
    progress_.dropped += candidates_[i].live ? 0U : 1U;
  }
  HC_FAILPOINT(load_header_read);
}

void Recovery::judge(Candidate& candidate, const IoEvent& event) {
  Core& core = works_.core;
  const Page& page = core.catalog->page(core.catalog->page_of(candidate.ref));
  const std::uint32_t at = core.catalog->part_of(candidate.ref);
  SlotFacts facts{true, false, false, false};
  BlobHeader header{};
  if (event.code == Code::ok) {
    facts.header = parse_header_block(event.header_block, core.superblock->seed_of(page.space),
                                      header) == BlobVerdict::good;
  }
  const BlobExpectation expected{core.family_of(candidate.ref).kind_of(at),
                                 core.payload_bytes(candidate.ref),
                                 page.hash,
                                 core.spaces->space(page.space).tags[at],
                                 candidate.slot,
                                 Generation{header.generation}};
  facts.same_page = facts.header && judge_header(header, expected) == BlobVerdict::good;
  facts.same_generation = header.generation == candidate.generation.value;
  facts.same_generation = facts.same_generation || HC_MUTANT(generation_unchecked);
  // The row of an old copy may name what was evicted, and forgotten after that.
  if (incomplete() && core.notes->is_forgotten(page.space, page.hash, candidate.generation)) {
    facts.same_generation = false;
  }
  candidate.live = judge_slot(facts) == SlotVerdict::live || HC_MUTANT(rows_believed);
}

void Recovery::install() {
  Core& core = works_.core;
  // What is adopted later is ordered below every access of this run.
  clock_ = incomplete() ? std::max(clock_, std::uint64_t{1} << 32) : clock_;
  for (const IndexErase& row : unknown_rows_) {
    works_.commit.add_erase(row.space, row.page);
  }
  if (core.catalog == nullptr) {
    return;
  }
  Catalog& catalog = *core.catalog;
  for (const Candidate& candidate : candidates_) {
    if (!candidate.live) {
      works_.commit.mark_dirty(catalog.page_of(candidate.ref));
      continue;
    }
    Part& part = catalog.part(candidate.ref);
    part.l3 = L3State::durable;
    part.slot = candidate.slot;
    part.slab = candidate.slab;
    part.generation = candidate.generation;
  }
  for (std::uint16_t slab = 0; slab < core.spaces->slabs().count(); ++slab) {
    install_slab(SlabId{slab});
  }
  catalog.set_clock(clock_);
  for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
    const PageId page{id};
    if (catalog.pages_max() - id > kPrefetchAhead) {
      works_.pages.prefetch_status(PageId{id + kPrefetchAhead});
    }
    if (catalog.page(page).in_use && !works_.pages.end_if_empty(page)) {
      works_.pages.publish_status(page);
      ++progress_.pages;
    }
  }
  candidates_.clear();
}

// A slot that only rows name which are about to be erased waits for that as well.
void Recovery::add_unknown_slots(SlabId slab, const std::vector<Slab::Live>& live,
                                 std::vector<SlotId>& limbo) {
  std::vector<bool> taken(works_.core.spaces->slabs().slab(slab).slot_count());
  for (const Slab::Live& entry : live) {
    taken[entry.slot.value] = true;
  }
  for (const SlotId slot : limbo) {
    taken[slot.value] = true;
  }
  for (const SlotRef& named : unknown_slots_) {
    if (named.slab == slab && !taken[named.slot.value]) {
      taken[named.slot.value] = true;
      limbo.push_back(named.slot);
    }
  }
}

// The slots of one slab, and its eviction order: oldest access last. A slot of which every row was
// dropped is handed out again only when the index has forgotten those rows.
void Recovery::install_slab(SlabId slab) {
  Core& core = works_.core;
  Slab::Found found;
  std::vector<Slab::Live>& live = found.live;
  std::vector<SlotId>& limbo = found.limbo;
  std::vector<std::pair<std::uint64_t, PartRef>> order;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    if (candidate.slab != slab) {
      continue;
    }
    // Candidates of one slot stand together; a live one among them is the only one.
    const bool last = i + 1 == candidates_.size() || candidates_[i + 1].slab != slab ||
                      candidates_[i + 1].slot != candidate.slot;
    if (candidate.live) {
      const Page& page = core.catalog->page(core.catalog->page_of(candidate.ref));
      live.push_back({candidate.slot, candidate.generation});
      order.emplace_back(page.last_access, candidate.ref);
    } else if (last && (live.empty() || live.back().slot != candidate.slot)) {
      limbo.push_back(candidate.slot);
    }
  }
  add_unknown_slots(slab, live, limbo);
  for (const SlotId slot : std::exchange(limbo, incomplete() ? std::vector<SlotId>() : limbo)) {
    if (incomplete()) {
      named_unscanned_.push_back({slab, slot});  // it may hold what no row names
    } else {
      works_.commit.add_limbo({slab, slot});
    }
  }
  if (incomplete()) {
    found.unscanned_steps = used_[slab.value];
  }
  core.spaces->slabs().slab(slab).rebuild(found);
  std::sort(order.begin(), order.end());
  for (const auto& [access, ref] : order) {
    core.slot_order.insert(*core.catalog, ref);
  }
}

}  // namespace hc
