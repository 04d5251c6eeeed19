// SPDX-License-Identifier: Apache-2.0
// quota_ranks: see the header.
#include "tests/sim/quota_ranks.h"

#include <algorithm>

#include "proto/budget.h"

namespace hc::sim {

namespace {

constexpr std::size_t kStepsOpenMax = 3;
// Longer than what a slow disk and a slow rank keep memory for.
constexpr std::uint32_t kPatienceMs = 5'000;

}  // namespace

QuotaRanks::QuotaRanks(World& world, Clients& clients, std::uint64_t seed)
    : world_(world), clients_(clients), prng_(Prng(seed).stream(5)) {
  clients_.set_on_quota_end(
      [this](const SimOp& op, const CompletionEntry& entry) { on_end(op, entry); });
}

void QuotaRanks::widen(Scenario& scenario) {
  EngineOptions& options = scenario.options;
  options.sessions_max = std::max(options.sessions_max, kAllSessions + 2);
  options.ops_max += (2 * kQuotaRanks + 2) * kOpSlotsPerSession;
}

std::uint32_t QuotaRanks::session_of(std::uint32_t rank, bool previous) const {
  return kSimSessions + (life_ + (previous ? 1U : 0U)) % 2 * kQuotaRanks + rank;
}

bool QuotaRanks::is_open() const {
  for (std::uint32_t rank = 0; rank < kQuotaRanks; ++rank) {
    if (clients_.session(session_of(rank)).state != SimSession::State::open) {
      return false;
    }
  }
  return true;
}

void QuotaRanks::attach_rank(std::uint32_t rank, std::uint32_t pages, bool& all) {
  const Scenario& scenario = world_.scenario;
  const auto shard =
      static_cast<std::uint16_t>(scenario.first_shard + rank % scenario.shard_count);
  QuotaAsk ask{"quota", pages * quota_page_bytes(scenario.space_of(version_)), {}};
  for (std::uint32_t other = 0; other < kQuotaRanks; ++other) {
    const SimSession& before = clients_.session(session_of(other, true));
    if (before.state != SimSession::State::closed) {
      ask.replaced.push_back(before.id);
    }
  }
  all = all && clients_.attach(session_of(rank), version_, shard, ask);
}

// The sessions of the life before may not have ended yet: these attach in their place.
bool QuotaRanks::attach() {
  for (std::uint32_t rank = 0; rank < kQuotaRanks; ++rank) {
    if (clients_.session(session_of(rank)).state != SimSession::State::closed) {
      return false;
    }
  }
  version_ = prng_.below32(kVersions);
  used_.assign(quota_owners(world_.scenario.space_of(version_)), 0);
  const std::uint64_t page_bytes = frame_bytes_per_page(
      world_.scenario.space_of(version_), world_.scenario.shards_on_node);
  const auto pages_l2 =
      static_cast<std::uint32_t>(world_.scenario.options.spaces.l2_bytes / page_bytes);
  bool all = true;
  for (pages_ = prng_.between32(1, pages_l2); pages_ > 0; pages_ /= 2) {
    all = true;
    attach_rank(0, pages_, all);
    if (all) {
      break;
    }
  }
  for (std::uint32_t rank = 1; all && rank < kQuotaRanks; ++rank) {
    attach_rank(rank, pages_, all);
  }
  if (!all) {
    end_group();
  }
  return all;
}

// One of them has died, or the engine starts anew: nothing of the group goes on.
void QuotaRanks::end_group() {
  for (std::uint32_t rank = 0; rank < kQuotaRanks; ++rank) {
    if (clients_.session(session_of(rank)).state == SimSession::State::open) {
      clients_.begin_close(session_of(rank));
    }
    ranks_[rank] = Rank{};
  }
  steps_.clear();
  ++life_;
}

void QuotaRanks::daemon_died() {
  ranks_ = {};
  steps_.clear();
}

void QuotaRanks::act() {
  if (world_.engine->state() != EngineState::serving || world_.engine->clearing_store()) {
    return;
  }
  if (!is_open()) {
    if (prng_.one_in(8)) {
      steps_.clear();
      ranks_ = {};
      attach();
    }
    return;
  }
  if (prng_.one_in(150)) {
    end_group();
    return;
  }
  if (prng_.one_in(2)) {
    decide();
  }
  for (std::uint32_t rank = 0; rank < kQuotaRanks; ++rank) {
    for (std::uint64_t orders = prng_.below(3); orders > 0 && !ranks_[rank].orders.empty();
         --orders) {
      follow(rank);
    }
  }
  settle();
}

bool QuotaRanks::draw_step(Step& step) {
  const Universe& universe = world_.scenario.universe;
  const std::uint32_t most = std::min(world_.scenario.pages_per_op_max, universe.pages_each);
  const std::uint32_t count = prng_.between32(1, most);
  const std::uint32_t conversation = prng_.below32(universe.conversations);
  const std::uint32_t first = prng_.below32(universe.pages_each - count + 1);
  step.charged.assign(used_.size(), 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t page = conversation * universe.pages_each + first + i;
    step.draft.pages.push_back(page);
    ++step.charged[used_.size() == 1 ? 0 : universe.owner(page)];
  }
  const std::uint64_t pick = prng_.below(10);
  step.draft.verb = pick < 5 ? Verb::store : pick < 9 ? Verb::reload : Verb::pin;
  step.draft.ack = step.draft.verb == Verb::store ? Ack::resident : Ack::none;
  step.draft.flags = step.draft.verb == Verb::store ? kFlagKeepLease : std::uint8_t{0};
  step.draft.deadline_ms = prng_.one_in(10) ? prng_.between32(1, 100)
                                            : prng_.between32(kPatienceMs, 60'000);
  return std::all_of(step.charged.begin(), step.charged.end(),
                     [this](std::uint32_t pages) { return pages <= pages_; });
}

bool QuotaRanks::fits(const std::vector<std::uint32_t>& wanted) const {
  for (std::size_t owner = 0; owner < wanted.size(); ++owner) {
    if (used_[owner] + wanted[owner] > pages_) {
      return false;
    }
  }
  return true;
}

// Its pages are the quota's again, and every rank that has them gets the order to release them.
void QuotaRanks::give_up(const Step& step) {
  for (std::size_t owner = 0; owner < used_.size(); ++owner) {
    used_[owner] -= step.charged[owner];
  }
  for (std::uint32_t rank = 0; rank < kQuotaRanks; ++rank) {
    if (step.leases[rank] != 0) {
      ranks_[rank].orders.push_back({true, step.number, step.leases[rank]});
    }
  }
}

bool QuotaRanks::make_room(const std::vector<std::uint32_t>& wanted) {
  while (!fits(wanted)) {
    const auto oldest = std::find_if(steps_.begin(), steps_.end(),
                                     [](const Step& step) { return step.settled; });
    if (oldest == steps_.end()) {
      return false;
    }
    give_up(*oldest);
    steps_.erase(oldest);
  }
  return true;
}

void QuotaRanks::decide() {
  const auto open = std::count_if(steps_.begin(), steps_.end(),
                                  [](const Step& step) { return !step.settled; });
  Step step;
  if (static_cast<std::size_t>(open) >= kStepsOpenMax || !draw_step(step) ||
      !make_room(step.charged)) {
    return;
  }
  step.number = next_step_++;
  for (std::size_t owner = 0; owner < used_.size(); ++owner) {
    used_[owner] += step.charged[owner];
  }
  for (Rank& rank : ranks_) {
    rank.orders.push_back({false, step.number, 0});
  }
  steps_.push_back(std::move(step));
}

QuotaRanks::Step* QuotaRanks::find(std::uint32_t number) {
  const auto found = std::find_if(steps_.begin(), steps_.end(),
                                  [&](const Step& step) { return step.number == number; });
  return found == steps_.end() ? nullptr : &*found;
}

// In their sequence. An operation may end before its submission returns.
void QuotaRanks::follow(std::uint32_t rank) {
  const Order order = ranks_[rank].orders.front();
  Clients::Draft draft;
  if (order.releases) {
    draft.verb = Verb::release;
    draft.lease = order.lease;
  } else {
    draft = find(order.step)->draft;
  }
  const std::uint32_t serial = clients_.next_serial();
  ranks_[rank].open.emplace_back(serial, order.releases ? 0 : order.step);
  if (clients_.submit(session_of(rank), draft)) {
    ranks_[rank].orders.pop_front();
  } else {
    ranks_[rank].open.pop_back();
  }
}

void QuotaRanks::on_end(const SimOp& op, const CompletionEntry& entry) {
  const auto code = static_cast<Code>(entry.code);
  world_.laws.expect(op.verb() == Verb::release || (code != Code::busy && code != Code::no_space),
                     4, "an operation within its quota was refused for lack of room");
  world_.laws.expect(code != Code::timed_out || op.entry.deadline_ms < kPatienceMs, 4,
                     "an operation within its quota waited in vain");
  for (std::uint32_t rank = 0; rank < kQuotaRanks; ++rank) {
    const auto open = std::find_if(ranks_[rank].open.begin(), ranks_[rank].open.end(),
                                   [&](const auto& at) { return at.first == op.serial; });
    if (open == ranks_[rank].open.end()) {
      continue;
    }
    Step* step = find(open->second);
    ranks_[rank].open.erase(open);
    if (step != nullptr) {
      world_.tally.quota_leases += entry.lease != 0 ? 1U : 0U;
      step->at[rank] = entry.lease != 0 ? StepState::held : StepState::failed;
      step->leases[rank] = entry.lease;
    }
  }
}

// What one rank could not have, none has.
void QuotaRanks::settle() {
  for (auto step = steps_.begin(); step != steps_.end();) {
    const auto is = [&](StepState state) {
      return std::count(step->at.begin(), step->at.end(), state);
    };
    step->settled = is(StepState::held) == kQuotaRanks;
    if (is(StepState::asked) == 0 && is(StepState::failed) > 0) {
      give_up(*step);
      step = steps_.erase(step);
    } else {
      ++step;
    }
  }
}

}  // namespace hc::sim
