// SPDX-License-Identifier: Apache-2.0
// admission: uses, parts that are held back, and what sends them to disk.
#include "daemon/engine/admission.h"

#include <algorithm>

#include "daemon/engine/works.h"
#include "proto/check.h"

namespace hc {

void Admission::open() {
  Core& core = works_.core;
  const bool grown = frames_.size() < core.spaces->family_count();
  std::uint64_t shards = 1;
  frames_.resize(core.spaces->family_count());
  for (std::uint16_t number = 0; number < core.spaces->family_count(); ++number) {
    const Family& family = core.spaces->family(FamilyNo{number});
    frames_[number].resize(family.frames.size());
    shards = std::max<std::uint64_t>(shards, family.descriptor.world.shards());
  }
  // A new family makes a larger sketch: what was counted so far is forgotten.
  if (core.options.spill.policy == SpillPolicy::selective && grown) {
    uses_ = std::make_unique<UseSketch>(std::uint64_t{core.catalog->pages_max()} * shards);
  }
}

// Every rank of an engine uses the same pages, so each counts for itself.
std::uint64_t Admission::use_key(const Op& op, PageId id) const {
  const Page& page = works_.core.catalog->page(id);
  const std::uint64_t shard = works_.core.sessions.find(op.session)->shard;
  return page.hash.word(0) ^ (std::uint64_t{page.space.value} * 0x9E3779B97F4A7C15ULL) ^
         ((shard + 1) * 0xC2B2AE3D27D4EB4FULL);
}

bool Admission::is_on_disk(PageId id) const {
  const Catalog& catalog = *works_.core.catalog;
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    if (catalog.part(catalog.ref(id, at)).l3 != L3State::absent) {
      return true;
    }
  }
  return false;
}

bool Admission::use(const Op& op, PageId page) {
  switch (works_.core.options.spill.policy) {
    case SpillPolicy::write_through: return true;
    case SpillPolicy::write_back: return false;
    case SpillPolicy::selective: break;
  }
  const bool store = op.verb() == Verb::store;
  const std::uint8_t hint = store ? op.request.entry.hint : std::uint8_t{0};
  const bool counts = (hint & kHintOneShot) == 0;
  const bool used = counts && uses_->add(use_key(op, page)) >= works_.core.options.spill.min_uses;
  // A page is whole on disk or not there.
  return used || (hint & kHintMayContinue) != 0 || is_on_disk(page);
}

void Admission::hold_back(PartRef ref) {
  Core& core = works_.core;
  Catalog& catalog = *core.catalog;
  if (catalog.unsettled().contains(ref.value)) {
    catalog.unsettled().remove(ref.value);
  } else {
    // Stored again after an earlier spill of it failed: flushes that are open don't cover it.
    catalog.part(ref).barrier = core.next_barrier++;
  }
  catalog.hold_back(ref);
  ++core.counters.parts_held_back;
  ++core.moves;  // a flush may have waited for it to become resident
  const Family& family = core.family_of(ref);
  const std::uint16_t kind = family.kind_of(catalog.part_of(ref));
  std::uint32_t& frames = frames_[family.number.value][kind];
  ++frames;
  bytes_ += core.payload_bytes(ref);
  if (core.options.spill.policy != SpillPolicy::write_back) {
    return;
  }
  const std::uint64_t most =
      std::uint64_t{family.frames[kind].frame_count()} * core.options.spill.dirty_percent / 100;
  while (frames > most) {
    std::uint32_t oldest = catalog.held_back().oldest();
    while (&core.family_of(PartRef{oldest}) != &family) {
      oldest = catalog.held_back().newer_than(oldest);
    }
    spill(catalog.page_of(PartRef{oldest}));
  }
}

void Admission::let_go(PartRef ref) {
  Core& core = works_.core;
  if (core.catalog->held_back().contains(ref.value)) {
    core.catalog->stop_holding_back(ref);
    const Family& family = core.family_of(ref);
    --frames_[family.number.value][family.kind_of(core.catalog->part_of(ref))];
    bytes_ -= core.payload_bytes(ref);
  }
}

void Admission::spill(PageId id) {
  const Catalog& catalog = *works_.core.catalog;
  for (std::uint32_t at = 0; at < catalog.parts_per_page(id); ++at) {
    const PartRef ref = catalog.ref(id, at);
    if (catalog.held_back().contains(ref.value)) {
      let_go(ref);
      works_.pages.unsettle(ref);
      works_.spiller.enqueue(ref);
    }
  }
}

bool Admission::spill_all() {
  if (works_.core.options.spill.policy == SpillPolicy::write_through ||
      works_.core.catalog == nullptr) {
    return false;
  }
  Catalog& catalog = *works_.core.catalog;
  const LruList& unsettled = catalog.unsettled();
  for (std::uint32_t at = unsettled.oldest(); at != kNone32; at = unsettled.newer_than(at)) {
    Part& part = catalog.part(PartRef{at});
    part.spill_wanted = part.spill_wanted || part.l2 == L2State::filling;
  }
  const bool any = !catalog.held_back().empty();
  while (!catalog.held_back().empty()) {
    spill(catalog.page_of(PartRef{catalog.held_back().oldest()}));
  }
  return any;
}

bool Admission::spill_for_stop() {
  return works_.core.options.spill.policy == SpillPolicy::write_back && spill_all();
}

bool Admission::keeps(PageId page) const {
  return works_.core.options.spill.policy == SpillPolicy::write_back &&
         works_.core.catalog->page(page).parts_held_back > 0;
}

}  // namespace hc
