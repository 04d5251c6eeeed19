// SPDX-License-Identifier: Apache-2.0
// boot: starts of the daemon, also those that a fault or a power cut breaks off, and its deaths.
#include "tests/sim/driver.h"

namespace hc::sim {

namespace {

constexpr int kStartsMax = 400;

}  // namespace

// Another family, or the same one with other budgets; only in an empty store.
void Driver::new_family(bool same_space) {
  Scenario scenario = draw_scenario(world_.prng, ++family_, options_.big_payloads);
  if (same_space) {
    Scenario kept = world_.scenario;
    const std::uint64_t more = world_.prng.between(100, 250);
    kept.options.spaces.reserve_slots = world_.prng.between32(2, 4);
    for (std::uint64_t& bytes : kept.options.spaces.volume_bytes) {
      bytes = bytes * more / 100;
    }
    // With more slots in reserve what was just enough is too little, and nobody could attach.
    std::uint64_t& first = kept.options.spaces.volume_bytes[0];
    first = std::max(first, kept.least_volume_bytes());
    scenario = kept;
  }
  if (options_.quotas && !same_space) {
    QuotaRanks::widen(scenario);
  }
  world_.scenario = scenario;
  world_.copier.set_jobs_max(scenario.copies_max);
  world_.disk.set_volumes(static_cast<std::uint16_t>(scenario.options.spaces.volume_bytes.size()));
  world_.model.reset(scenario.universe, scenario.versions());
  world_.trace.add("family", family_, same_space ? 1 : 0, scenario.shard_count,
                   scenario.spaces.size() * 10 + scenario.options.spaces.volume_bytes.size());
}

void Driver::boot(ColdStartMode mode) {
  world_.index.damage_rows();
  lose_index();
  int starts = 0;
  const ColdStartMode wanted = mode;
  while (!try_boot(mode, starts == 0)) {
    mode = wanted;
    world_.laws.expect(++starts < kStartsMax, 5, "the daemon never starts");
    kill();
  }
  if (mode == ColdStartMode::clear) {
    world_.model.forget_all(world_.model.next(), true);
    watch_.forget_remembered();
    world_.laws.expect(!world_.has_catalog(), 2, "a store is not empty after a cold start clear");
  }
  check_budget();
  watch_.observe();
  if (world_.engine->rebuilding() && world_.prng.one_in(2)) {
    watch_.forget_remembered();  // it serves meanwhile; what is evicted meanwhile is not told apart
  }
  finish_rebuild();
  watch_.check_recovered();
  // What a rebuild has adopted goes on to its commit.
  const bool at_rest =
      !world_.engine->scanning_behind() && world_.engine->core().counters.index_rebuilds == 0;
  watch_.walk(at_rest);
}

// Between two starts. Nothing of it may cost a page that its slot still holds.
void Driver::lose_index() {
  world_.told_by_marks = false;
  if (!world_.prng.percent(world_.plan.index_lost)) {
    return;
  }
  const std::uint32_t how = world_.prng.below32(3);
  world_.trace.add("index lost", how);
  if (how == 0) {
    world_.index.lose();
    world_.told_by_marks = true;
  } else if (how == 1) {
    world_.index.damage();
  } else {
    world_.told_by_marks = world_.index.put_copy_back();
  }
}

void Driver::finish_rebuild() {
  const Instant bound = world_.clock.time() + 600'000 * kNsPerMs;
  while (watch_.remembers() && world_.engine->rebuilding()) {
    world_.laws.expect(world_.clock.time() < bound, 5, "a rebuild does not end");
    advance(kNsPerMs);
  }
  const Counters& counters = world_.engine->core().counters;
  if (counters.commit_failures + counters.flush_failures > 0) {
    watch_.forget_remembered();  // a failed flush drops what was adopted, whoever wrote it
  }
}

bool Driver::try_boot(ColdStartMode& mode, bool may_change) {
  const bool cut = world_.prng.percent(world_.plan.power_cut);
  world_.disk.cut_power_at_write(cut ? world_.prng.between32(1, 3) : 0);
  world_.scenario.options.load_lazily = world_.prng.one_in(3);
  world_.scenario.options.io_timeout_ms = world_.plan.io_timeout_ms;
  world_.engine = std::make_unique<Engine>(world_.disk, world_.index, world_.copier, clients_,
                                           world_.scenario.options);
  world_.engine->core().evictions = &watch_;
  watch_.observe();
  world_.trace.add("start", static_cast<std::uint64_t>(mode), cut ? 1 : 0);
  Uuid uuid{};
  for (std::uint8_t& byte : uuid) {
    byte = static_cast<std::uint8_t>(world_.prng.next());
  }
  const auto opened = world_.engine->open(uuid);
  if (!opened) {
    world_.laws.expect(opened.error().code == Code::io_error, 2, opened.error().text.c_str());
    return false;
  }
  if (world_.prng.one_in(4)) {
    world_.laws.expect(!clients_.attach(0, 0, world_.scenario.first_shard), 4,
                       "an attach succeeded while the daemon holds");
    turn();
  }
  return leave_hold(mode, may_change) && finish_loading();
}

// An operator says it again to a daemon whose start has failed, or says load after a clear that did
// not come to its commit point.
bool Driver::leave_hold(ColdStartMode& mode, bool may_change) {
  const std::uint64_t epoch = world_.core().superblock->current().epoch;
  auto started = world_.engine->cold_start(mode);
  while (!started) {
    world_.laws.expect(started.error().code == Code::io_error, 2, started.error().text.c_str());
    world_.laws.expect(world_.engine->state() == EngineState::holding && !world_.has_catalog(), 5,
                       "a start that failed left something behind");
    if (world_.disk.power_is_cut() || world_.prng.one_in(3)) {
      return false;
    }
    turn();
    const bool untouched = world_.core().superblock->current().epoch == epoch;
    if (may_change && untouched && mode == ColdStartMode::clear && world_.prng.one_in(3)) {
      mode = ColdStartMode::load;
    }
    world_.trace.add("start again", static_cast<std::uint64_t>(mode));
    started = world_.engine->cold_start(mode);
  }
  return true;
}

// False: killed while it loads.
bool Driver::finish_loading() {
  const bool cut = world_.prng.one_in(6);
  std::uint32_t turns_left = world_.prng.between32(0, 20);
  while (world_.engine->state() == EngineState::loading) {
    if (cut && turns_left-- == 0) {
      world_.trace.add("killed while loading");
      return false;
    }
    advance(100'000);
  }
  world_.disk.cut_power_at_write(0);
  return !world_.disk.power_is_cut();
}

void Driver::kill() {
  const Crash how = world_.disk.power_is_cut() || world_.prng.one_in(2) ? Crash::power
                                                                        : Crash::process;
  ++world_.tally.crashes;
  world_.tally.quota_waits += world_.core().counters.quota_waits;
  world_.tally.promoted += world_.core().counters.stores_promoted;
  world_.trace.add("crash", static_cast<std::uint64_t>(how));
  if (world_.engine->state() == EngineState::serving) {
    watch_.walk(false);
    watch_.remember_durable();
  }
  world_.copier.crash();
  world_.ranks.crash();
  world_.index.crash();
  world_.disk.crash(how);
  world_.engine.reset();
  order_.reset();
  watch_.set_clearing(false);
  clients_.daemon_died();
  if (quota_ranks_) {
    quota_ranks_->daemon_died();
  }
  world_.model.daemon_died();
  world_.losses.clear();
  watch_.observe();
  charged_.assign(kVolumesMax, UINT64_MAX);  // a start may find more than the budget
}

void Driver::crash_and_boot() {
  kill();
  const bool clear = world_.prng.one_in(7);
  if (world_.prng.one_in(6)) {
    lower_budget();
  }
  boot(clear ? ColdStartMode::clear : ColdStartMode::load);
  if (clear && world_.prng.one_in(2)) {
    // The operator changes the configuration with the clear.
    const bool same_space = world_.prng.one_in(3);
    kill();
    new_family(same_space);
    boot(ColdStartMode::clear);
  }
  check_budget();
  attach_some();
  if (world_.prng.one_in(2)) {
    audit(8);
  }
}

// Between two lives; what is beyond it goes after the start.
void Driver::lower_budget() {
  const std::uint64_t least = world_.scenario.least_volume_bytes();
  for (std::uint64_t& bytes : world_.scenario.options.spaces.volume_bytes) {
    bytes = std::max(std::min(bytes, least), bytes * world_.prng.between(50, 95) / 100);
  }
  world_.trace.add("budget lowered", world_.scenario.options.spaces.volume_bytes[0]);
}

// What the slab files have got never passes what the engine counts, nor that the budget, unless a
// start has found more.
void Driver::check_budget() {
  if (world_.engine->state() != EngineState::serving) {
    return;
  }
  const SlabSet& slabs = world_.core().spaces->slabs();
  for (std::uint16_t volume = 0; volume < slabs.volume_count(); ++volume) {
    const StepLedger& ledger = slabs.ledger(volume);
    world_.laws.expect(world_.disk.slab_bytes(volume) <= ledger.charged_bytes(), 3,
                       "the slab files take more than is counted");
    world_.laws.expect(!ledger.over_budget() || ledger.charged_bytes() <= charged_[volume], 3,
                       "the slab files take more than their budget");
    charged_[volume] = ledger.charged_bytes();
  }
}

}  // namespace hc::sim
