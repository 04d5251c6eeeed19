// SPDX-License-Identifier: Apache-2.0
// engine_clear: the operator's clear of the store and of a space.
//
// An order ends once: when its work is done, or when it is known to fail. The work of a clear of
// the store goes on after a failed order: its pages are gone already, and nothing may attach to
// half of an empty store.
#include <algorithm>

#include "daemon/engine/engine.h"
#include "daemon/log/log.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// Failed writes of the superblock in a row after which a clear is told so.
constexpr std::uint32_t kSuperblockFailuresMax = 5;

}  // namespace

// Every page is unreachable at once. The new epoch makes the old headers unreadable; the index and
// the slabs are reset when nothing is in flight any more. Until then nothing is spilled.
Result<std::uint64_t> Engine::start_clear() {
  const bool takes_over = order_ == OrderState::running && !clearing_store_;
  if (order_ != OrderState::idle && !takes_over) {
    return make_error(Code::busy, "another clear is running");
  }
  if (state_ != EngineState::serving) {
    return not_serving(state_);
  }
  works_->spiller.pause(true);
  works_->commit.pause(true);
  works_->steps.pause(true);
  clearing_store_ = true;
  order_ = OrderState::running;
  std::uint64_t pages = 0;
  verbs_->forget_waiting(std::nullopt, {});
  for (std::uint32_t id = 0; core_->catalog != nullptr && id < core_->catalog->pages_max(); ++id) {
    const Page& page = core_->catalog->page(PageId{id});
    if (page.in_use && !page.doomed) {
      works_->forget.doom(PageId{id}, Doom::store_clear, {});
      ++pages;
    }
  }
  superblock_->raise_epoch(false);
  HC_FAILPOINT(clear_epoch_raised);
  wants_turn_ = true;
  order_sequence_ = superblock_->sequence();
  order_failures_ = superblock_->failures_in_row();
  return pages;
}

Result<std::uint64_t> Engine::start_clear_space(SpaceNo number) {
  if (order_ != OrderState::idle || clearing_store_) {
    return make_error(Code::busy, "another clear is running");
  }
  if (state_ != EngineState::serving || spaces_->find(number) == nullptr) {
    return make_error(Code::not_found, "space " + std::to_string(number.value) + " is not known");
  }
  order_freed_at_start_ = verbs_->orders_freed();
  order_pages_ = 0;
  order_ = OrderState::running;
  clearing_space_ = number;
  HC_CHECK(core_->catalog != nullptr);
  verbs_->forget_waiting(number, {});
  for (std::uint32_t id = 0; id < core_->catalog->pages_max(); ++id) {
    const Page& page = core_->catalog->page(PageId{id});
    if (page.in_use && !page.doomed && page.space == number) {
      ++order_pages_;
      works_->forget.doom(PageId{id}, Doom::space_clear, {Verbs::kOrderToken, 0});
    }
  }
  superblock_->raise_space_epoch(number);
  spaces_->space(number).epoch_sequence = superblock_->sequence();
  HC_FAILPOINT(clear_space_epoch_raised);
  wants_turn_ = true;
  order_sequence_ = superblock_->sequence();
  order_failures_ = superblock_->failures_in_row();
  return order_pages_;
}

void Engine::end_order(Result<void> result) {
  if (order_ != OrderState::running) {
    return;  // its failure was told before
  }
  if (!result) {
    log_warn("clear.failed", {{"reason", result.error().message()}});
  }
  order_ = OrderState::done;
  order_result_ = std::move(result);
}

// The new epoch is on the disk. Writes that fail are tried on, but not for ever in silence.
bool Engine::clear_is_durable() {
  if (superblock_->durable_sequence() >= order_sequence_) {
    return true;
  }
  order_failures_ = std::min(order_failures_, superblock_->failures_in_row());
  if (superblock_->failures_in_row() >= order_failures_ + kSuperblockFailuresMax) {
    end_order(make_error(Code::io_error, "clear: the superblock can't be written: the pages are "
                                         "gone until the next start, which may find them"));
  }
  return false;
}

void Engine::turn_clear() {
  if (clearing_store_) {
    turn_clear_store();
    return;
  }
  if (order_ != OrderState::running || !clear_is_durable()) {
    return;
  }
  if (verbs_->orders_freed() - order_freed_at_start_ >= order_pages_) {
    if (!space_is_used(clearing_space_)) {
      spaces_->drop(clearing_space_);
    }
    HC_FAILPOINT(clear_space_done);
    end_order({});
  } else if (works_->commit.is_failing()) {
    end_order(make_error(works_->commit.failure_code(),
                         "clear: the index can't be written; a clear of the whole store "
                         "repairs it"));
  }
}

void Engine::turn_clear_store() {
  if (!clear_is_durable() || !works_->commit.idle() || !works_->spiller.idle() ||
      !works_->fills.idle() || !works_->forget.idle() || !works_->steps.idle() || !scans_idle()) {
    return;
  }
  HC_FAILPOINT(clear_epoch_durable);
  auto result = core_->index.reset(identity());
  HC_FAILPOINT(clear_index_reset);
  empty_store(result);
  HC_FAILPOINT(clear_slabs_emptied);
  clearing_store_ = false;
  ++core_->moves;  // what was held back meanwhile goes on
  // A page record in use may still stand in a queue of the works.
  const bool unused = core_->catalog != nullptr && core_->catalog->empty();
  if (core_->sessions.open_count() == 0 && unused && core_->ops.active().empty()) {
    core_->catalog.reset();
    core_->slot_order.clear();
    if (auto forgotten = spaces_->forget_families(); !forgotten && result) {
      result = forgotten;
    }
    HC_FAILPOINT(clear_family_forgotten);
  }
  end_order(std::move(result));
}

void Engine::empty_store(const Result<void>& index_reset) {
  works_->commit.reset(index_reset);
  notes_->forget_all_epochs();
  for (std::uint32_t id = 0; core_->catalog != nullptr && id < core_->catalog->pages_max(); ++id) {
    if (core_->catalog->page(PageId{id}).doomed) {
      works_->forget.strip_slots(PageId{id});
      works_->forget.settle(PageId{id});
    }
  }
  works_->steps.reset();
  for (std::uint16_t id = 0; id < slabs_->count(); ++id) {
    slabs_->slab(SlabId{id}).reset();
  }
  for (Space* space : spaces_->all()) {
    space->in_index = false;
  }
  drop_unused_spaces();
  works_->spiller.pause(false);
  works_->commit.pause(false);
  works_->steps.pause(false);
}

// No row and no readable blob is left: the numbers of spaces that nobody uses may go to others.
void Engine::drop_unused_spaces() {
  for (const Space* space : spaces_->all()) {
    if (!space_is_used(space->number)) {
      spaces_->drop(space->number);
    }
  }
  spaces_->drop_absent_numbers();
}

bool Engine::space_is_used(SpaceNo number) {
  for (const SessionId session : core_->sessions.all()) {
    if (core_->sessions.find(session)->space == number) {
      return true;
    }
  }
  for (std::uint32_t id = 0; core_->catalog != nullptr && id < core_->catalog->pages_max(); ++id) {
    const Page& page = core_->catalog->page(PageId{id});
    if (page.in_use && page.space == number) {
      return true;
    }
  }
  return false;
}

}  // namespace hc
