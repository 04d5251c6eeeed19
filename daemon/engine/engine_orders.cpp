// SPDX-License-Identifier: Apache-2.0
// engine_orders: what an operator orders: clear, clear of a space, the flush barrier; and stats.
#include <algorithm>

#include "daemon/engine/engine.h"
#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

// Every page is unreachable at once. The new epoch makes the old headers unreadable; the index and
// the slabs are reset when nothing is in flight any more. Until then nothing is spilled.
Result<std::uint64_t> Engine::start_clear() {
  if (order_ != OrderState::idle) {
    return make_error(Code::busy, "another clear is running");
  }
  if (state_ != EngineState::serving) {
    return make_error(Code::not_ready, "the daemon holds its cold start: "
                                       "cachectl cold-start load|clear");
  }
  std::uint64_t pages = 0;
  if (core_->catalog != nullptr) {
    works_->spiller.pause(true);
    works_->commit.pause(true);
    for (std::uint32_t id = 0; id < core_->catalog->pages_max(); ++id) {
      const Page& page = core_->catalog->page(PageId{id});
      if (page.in_use && !page.doomed) {
        works_->forget.doom(PageId{id}, Doom::store_clear, {});
        ++pages;
      }
    }
  }
  superblock_->raise_epoch(false);
  wants_turn_ = true;
  order_sequence_ = superblock_->sequence();
  clearing_store_ = true;
  order_ = OrderState::running;
  return pages;
}

void Engine::turn_clear() {
  if (order_ != OrderState::running || superblock_->durable_sequence() < order_sequence_) {
    return;
  }
  if (!clearing_store_) {
    if (verbs_->orders_freed() - order_freed_at_start_ >= order_pages_) {
      order_ = OrderState::done;
    }
    return;
  }
  if (!works_->commit.idle() || !works_->spiller.idle() || !works_->fills.idle() ||
      !works_->forget.idle()) {
    return;
  }
  const IndexIdentity identity{superblock_->current().store_uuid, superblock_->current().epoch};
  if (auto reset = core_->index.reset(identity); !reset) {
    log_error("clear.index_failed", {{"reason", reset.error().message()}});
  }
  if (core_->catalog != nullptr) {
    works_->commit.reset();
    for (std::uint32_t id = 0; id < core_->catalog->pages_max(); ++id) {
      if (core_->catalog->page(PageId{id}).doomed) {
        works_->forget.strip_slots(PageId{id});
        works_->forget.settle(PageId{id});
      }
    }
    for (std::uint16_t id = 0; id < slabs_->count(); ++id) {
      slabs_->slab(SlabId{id}).reset();
    }
    for (Space* space : spaces_->all()) {
      space->in_index = false;
    }
    works_->spiller.pause(false);
    works_->commit.pause(false);
  }
  clearing_store_ = false;
  order_ = OrderState::done;
  ++core_->moves;  // what was held back meanwhile goes on
  // A page record in use may still stand in a queue of the works.
  const bool unused = core_->catalog != nullptr &&
                      core_->catalog->pages_free() == core_->catalog->pages_max();
  if (core_->sessions.open_count() == 0 && unused && core_->ops.active().empty()) {
    core_->catalog.reset();
    core_->slot_order.clear();
    if (auto forgotten = spaces_->forget_family(); !forgotten) {
      log_error("clear.slabs_failed", {{"reason", forgotten.error().message()}});
    }
  }
}

Result<std::uint64_t> Engine::start_clear_space(SpaceNo number) {
  if (order_ != OrderState::idle) {
    return make_error(Code::busy, "another clear is running");
  }
  if (state_ != EngineState::serving || spaces_->find(number) == nullptr) {
    return make_error(Code::not_found, "space " + std::to_string(number.value) + " is not known");
  }
  order_freed_at_start_ = verbs_->orders_freed();
  order_pages_ = 0;
  HC_CHECK(core_->catalog != nullptr);
  for (std::uint32_t id = 0; id < core_->catalog->pages_max(); ++id) {
    const Page& page = core_->catalog->page(PageId{id});
    if (page.in_use && !page.doomed && page.space == number) {
      ++order_pages_;
      works_->forget.doom(PageId{id}, Doom::space_clear, {Verbs::kOrderToken, 0});
    }
  }
  superblock_->raise_space_epoch(number);
  wants_turn_ = true;
  order_sequence_ = superblock_->sequence();
  order_ = OrderState::running;
  return order_pages_;
}

std::uint64_t Engine::barrier_now() {
  wants_turn_ = true;
  works_->commit.request_soon();
  return verbs_->last_barrier();
}

bool Engine::barrier_reached(std::uint64_t barrier) {
  if (core_->catalog == nullptr || core_->catalog->unsettled().empty()) {
    return true;
  }
  works_->commit.request_soon();
  const PartRef oldest{core_->catalog->unsettled().oldest()};
  return core_->catalog->part(oldest).barrier > barrier;
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
  for (FramePool& pool : spaces_->family().frames) {
    out.frames_total += pool.frame_count();
    out.frames_free += pool.free_count();
  }
  out.resident_parts = out.frames_total - out.frames_free;
  std::uint64_t stored = 0;
  for (std::uint16_t id = 0; id < slabs_->count(); ++id) {
    const Slab& slab = slabs_->slab(SlabId{id});
    out.slots_total += slab.slot_count();
    out.slots_free += slab.free_count();
    stored += core_->slot_order.order(SlabId{id}).size();
  }
  out.written_parts = works_->commit.written_waiting();
  out.durable_parts = stored - std::min(stored, out.written_parts);
  out.frames_leased = core_->leases.nodes_used();
  if (!catalog.unsettled().empty()) {
    const PartRef oldest{catalog.unsettled().oldest()};
    out.oldest_undurable_ms = core_->now_ms() - catalog.part(oldest).unsettled_since_ms;
  }
  return out;
}

}  // namespace hc
