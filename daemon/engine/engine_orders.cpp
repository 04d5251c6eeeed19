// SPDX-License-Identifier: Apache-2.0
// engine_orders: what an operator asks besides clear: the flush barrier, stats.
#include <algorithm>

#include "daemon/engine/engine.h"
#include "proto/check.h"

namespace hc {

namespace {

// Barriers whose result nobody took (their caller gave up) go when there are more.
constexpr std::size_t kBarriersMax = 64;

}  // namespace

std::uint64_t Engine::barrier_now() {
  wants_turn_ = true;
  works_->commit.request_soon();
  works_->admission.spill_all();
  const std::uint64_t barrier = verbs_->last_barrier();
  barriers_.insert_or_assign(barrier, losses_told_);
  if (barriers_.size() > kBarriersMax) {
    barriers_.erase(barriers_.begin());
  }
  return barrier;
}

bool Engine::barrier_reached(std::uint64_t barrier) {
  if (core_->catalog == nullptr || core_->catalog->unsettled().empty() ||
      works_->commit.index_dead()) {
    return true;
  }
  works_->commit.request_soon();
  const PartRef oldest{core_->catalog->unsettled().oldest()};
  return core_->catalog->part(oldest).barrier > barrier;
}

Result<void> Engine::barrier_result(std::uint64_t barrier) {
  const auto open = barriers_.find(barrier);
  const std::uint64_t told = open == barriers_.end() ? losses_told_ : open->second;
  const Code lost = core_->ledger.first_covered(told, barrier);
  if (lost != Code::ok) {
    losses_told_ = std::max(losses_told_, core_->ledger.told_by(told, barrier));
    return make_error(lost, "flush: pages could not be made durable; they are in memory or gone");
  }
  const bool settled = core_->catalog == nullptr || core_->catalog->unsettled().empty() ||
                       core_->catalog->part(PartRef{core_->catalog->unsettled().oldest()}).barrier >
                           barrier;
  if (!settled) {
    return make_error(works_->commit.failure_code(),
                      "flush: the index takes no rows any more: cachectl clear repairs it");
  }
  return {};
}

// Frames that leases hold: resident parts of leased pages, each once.
std::uint64_t Engine::frames_leased() const {
  const Catalog& catalog = *core_->catalog;
  std::vector<bool> seen(core_->leases.nodes_used() == 0 ? 0 : catalog.pages_max());
  std::uint64_t frames = 0;
  for (const LeaseId lease : core_->leases.all()) {
    for (const PageId page : core_->leases.pages(lease)) {
      for (std::uint32_t at = 0; !seen[page.value] && at < catalog.parts_per_page(page); ++at) {
        frames += catalog.part(catalog.ref(page, at)).l2 == L2State::resident ? 1U : 0U;
      }
      seen[page.value] = true;
    }
  }
  return frames;
}

std::uint64_t Engine::slots_quarantined() const {
  std::uint64_t slots = 0;
  for (std::uint16_t id = 0; slabs_ != nullptr && id < slabs_->count(); ++id) {
    slots += slabs_->slab(SlabId{id}).quarantined_count();
  }
  return slots;
}

void Engine::count_io() {
  Counters& counters = core_->counters;
  counters.io_errors = 0;
  counters.io_timeouts = 0;
  counters.volume_failures = 0;
  for (std::uint16_t volume = 0; volume < io_->volume_count(); ++volume) {
    const VolumeHealth& health = io_->health(volume);
    counters.io_errors += health.errors();
    counters.io_timeouts += health.timeouts();
    counters.volume_failures += health.failures();
  }
}

StatsReply Engine::stats() {
  StatsReply out{};
  const Counters& counters = core_->counters;
  out.hits_l2 = counters.pages_hit_l2;
  out.hits_l3 = counters.pages_hit_l3;
  out.misses = counters.pages_missed;
  out.stored = counters.pages_stored;
  out.evicted_l2 = counters.pages_evicted_l2;
  out.evicted_l3 = counters.pages_evicted_l3;
  out.verify_failures = counters.verify_failures();
  out.commits = counters.commits;
  if (core_->catalog == nullptr) {
    return out;
  }
  Catalog& catalog = *core_->catalog;
  out.pages = catalog.pages_linked();
  for (std::uint16_t number = 0; number < spaces_->family_count(); ++number) {
    for (const FramePool& pool : spaces_->family(FamilyNo{number}).frames) {
      out.frames_total += pool.frame_count();
      out.frames_free += pool.free_count();
    }
  }
  out.resident_parts = out.frames_total - out.frames_free;  // those being filled included
  std::uint64_t stored = 0;
  for (std::uint16_t id = 0; id < slabs_->count(); ++id) {
    const Slab& slab = slabs_->slab(SlabId{id});
    out.slots_total += slab.slots_present();
    out.slots_free += slab.free_count();
    stored += core_->slot_order.order(SlabId{id}).size();
  }
  out.written_parts = works_->commit.written_waiting();
  out.durable_parts = stored - std::min(stored, out.written_parts);
  out.frames_leased = frames_leased();
  if (!catalog.unsettled().empty()) {
    const PartRef oldest{catalog.unsettled().oldest()};
    out.oldest_undurable_ms = core_->now_ms() - catalog.part(oldest).unsettled_since_ms;
  }
  return out;
}

}  // namespace hc
