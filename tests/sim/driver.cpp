// SPDX-License-Identifier: Apache-2.0
// driver: the life of a seed, and the movement of time.
#include "tests/sim/driver.h"

#include <algorithm>

namespace hc::sim {

namespace {

constexpr std::uint32_t kWalkEvery = 16;
constexpr std::uint32_t kTwiceEvery = 16;

}  // namespace

Driver::Driver(World& world, const DriverOptions& options)
    : world_(world), options_(options), clients_(world), watch_(world) {
  Prng plan_prng = Prng(options.seed).stream(4);
  FaultPlan plan = draw_fault_plan(plan_prng);
  if (options.weak_flushes) {
    plan.sync_error = 3'000;
    plan.io_delay_us = 3'000;
  }
  if (options.quotas) {
    quota_ranks_.emplace(world_, clients_, options.seed);
  }
  if (options.reattaches) {
    reattach_prng_ = Prng(options.seed).stream(10);
  }
  world_.gpus = options.gpus;
  if (options.lies) {
    plan.lost_write = 2'000;
  }
  world_.set_plan(plan);
  clients_.set_memory_bound(std::int64_t{world_.plan.slow_ms} * kNsPerMs + 50 * kNsPerMs);
}

void Driver::run() {
  new_family(false);
  boot(world_.prng.one_in(2) ? ColdStartMode::clear : ColdStartMode::load);
  attach_some();
  next_crash_ = world_.prng.between32(options_.operations / 8, options_.operations / 4);
  while (world_.tally.operations < options_.operations) {
    act();
    if (quota_ranks_) {
      quota_ranks_->act();
      watch_.observe();
    }
    if (reattach_prng_ && reattach_prng_->one_in(12)) {
      act_reattach();
    }
    if (world_.prng.one_in(100)) {
      world_.index.save_copy();
    }
    if (world_.tally.operations >= next_crash_) {
      crash_and_boot();
      next_crash_ += world_.prng.between32(options_.operations / 8, options_.operations / 4);
    }
  }
  // The last look: no new faults, everything that is there is read back, before and after a crash.
  if (world_.index.is_dead()) {
    crash_and_boot();
  }
  world_.set_plan(FaultPlan{});
  come_to_rest();
  audit(UINT32_MAX);
  kill();
  boot(ColdStartMode::load);
  audit(UINT32_MAX);
  world_.tally.faults = world_.disk.faults();
}

Instant Driver::next_event() {
  Instant next = world_.engine->next_deadline();
  next = std::min(next, world_.disk.next_due());
  next = std::min(next, world_.index.next_due());
  next = std::min(next, world_.copier.next_due());
  next = std::min(next, world_.ranks.next_due());
  return next;
}

void Driver::advance(std::int64_t delta_ns) {
  const Instant target = world_.clock.time() + delta_ns;
  while (world_.clock.time() < target) {
    const Instant next = std::max(next_event(), world_.clock.time() + kUs);
    world_.clock.advance_to(std::min(next, target));
    turn();
  }
}

void Driver::turn() {
  const Instant now = world_.clock.time();
  if (++turns_ % kTwiceEvery == 0) {
    turn_twice();
  } else {
    world_.engine->turn(now);
  }
  if (world_.engine->state() == EngineState::serving) {
    clients_.turn();
    clients_.check_deadlines(now);
    finish_order();
    watch_.set_clearing(world_.engine->clearing_store());
  }
  watch_.observe();
  check_budget();
  if (turns_ % kWalkEvery == 0 && world_.engine->state() == EngineState::serving) {
    watch_.walk(false);
  }
}

// With time frozen, a second turn finds nothing to do, and asks for nothing at once: else the
// reactor would sleep on work, or spin.
void Driver::turn_twice() {
  world_.clock.freeze(true);
  const auto work = [&] {
    return world_.disk.submitted() + world_.copier.submitted() + world_.trace.lines();
  };
  world_.engine->turn(world_.clock.time());
  const std::uint64_t before = work();
  world_.engine->turn(world_.clock.time());
  world_.laws.expect(work() == before, 4, "a turn left work that nothing will wake it for");
  world_.laws.expect(world_.engine->next_deadline() > world_.clock.time(), 4,
                     "the engine asks for a turn that has nothing to do");
  world_.clock.freeze(false);
}

void Driver::finish_order() {
  if (!order_ || world_.engine->order_state() != OrderState::done) {
    return;
  }
  const bool ok = world_.engine->order_result().has_value();
  world_.trace.add("order done", order_->store ? 1 : 0, order_->version, ok ? 1 : 0);
  if (order_->store) {
    world_.model.forget_all(order_->sequence, ok);
  } else {
    world_.model.forget_version(order_->version, order_->sequence, ok);
  }
  world_.engine->finish_order();
  order_.reset();
}

void Driver::close_sessions() {
  for (std::uint32_t number = 0; number < kAllSessions; ++number) {
    if (clients_.session(number).state == SimSession::State::open) {
      clients_.begin_close(number);
    }
  }
}

void Driver::come_to_rest() {
  close_sessions();
  const Instant bound = world_.clock.time() + 600'000 * kNsPerMs;
  while (world_.core().sessions.open_count() > 0 || order_ || world_.engine->clearing_store() ||
         !world_.engine->drained()) {
    if (world_.clock.time() > bound) {
      world_.laws.broken(5, "the engine does not come to rest");
      return;
    }
    advance(5 * kNsPerMs);
    close_sessions();  // one that was switching may be open again
  }
  world_.laws.expect(clients_.open_ops() == 0, 4, "an operation was never answered");
  watch_.walk(true);
  watch_.walk_limbo();
}

}  // namespace hc::sim
