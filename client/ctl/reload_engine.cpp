// SPDX-License-Identifier: Apache-2.0
// reload_engine: a pass: what came in, what can be served, one tick of the group, what it decided.
#include "client/ctl/reload_engine.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "client/ctl/monotonic.h"

namespace hc {

namespace {

constexpr std::uint32_t kRegionNumber = 0;
constexpr std::uint32_t kAttachRegionMs = 30'000;
constexpr std::uint32_t kIdleMs = 1;
constexpr std::uint32_t kMeetAgainMs = 500;      // a rank has died: a successor would be there soon
constexpr std::uint32_t kMeetLateMs = 20'000;    // a rank was late
constexpr std::uint32_t kNobodysRow = 0;         // what the library names where no row is meant

bool is_parting(hicache_code code) {
  return code == HICACHE_DISCONNECTED || code == HICACHE_TIMED_OUT || code == HICACHE_IO_ERROR;
}

}  // namespace

ReloadEngine::ReloadEngine(const RankSetup& setup, std::uint32_t rank)
    : setup_(setup),
      share_(*setup.reload),
      rank_(rank),
      totals_(share_.boards.totals(rank)),
      uniform_(totals_.uniform),
      bytes_(setup.boards.totals(rank)),
      client_(setup, rank),
      contents_(setup.plan, setup.trace, static_cast<std::uint16_t>(rank)),
      rows_(kNobodysRow + 1, setup.plan.region_rows),
      draws_(share_.plan.chaos, share_.plan.seed + 2, rank) {}

int ReloadEngine::event_fd() const {
  int fd = -1;
  static_cast<void>(hicache_event_fd(client_.handle(), &fd));
  return fd;
}

hicache_code ReloadEngine::open(std::string& why) {
  auto region = RankRegion::make(
      setup_.plan.space,
      {setup_.plan.region_rows, setup_.plan.runs, setup_.plan.device, rank_,
       setup_.plan.transfer});
  if (!region) {
    why = region.error().message();
    return HICACHE_IO_ERROR;
  }
  region_.emplace(std::move(*region));
  client_.set_region(*region_);
  contents_.spoil(*region_, kNobodysRow);
  hicache_code code = client_.open(why);
  if (code == HICACHE_OK) {
    code = region_->attach(client_.handle(), kRegionNumber, kAttachRegionMs);
  }
  if (code != HICACHE_OK && why.empty()) {
    why = hicache_last_error();
  }
  return code;
}

ReloadEngine::Waiting* ReloadEngine::find(std::uint64_t request) {
  const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                               [&](const Waiting& each) { return each.request == request; });
  return at == waiting_.end() ? nullptr : &*at;
}

bool ReloadEngine::has_held() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const Waiting& at) { return at.state == State::held; });
}

// The other ranks would say the same.
void ReloadEngine::note(const ReloadEvent& event) const {
  if (rank_ == 0) {
    const bool is_noted = share_.boards.add_event(event);
    HC_CHECK(is_noted);
  }
}

TickInput ReloadEngine::front_input() {
  std::vector<std::uint64_t> held;
  for (const Waiting& at : waiting_) {
    if (at.state == State::held) {
      held.push_back(at.request);
    }
  }
  return front_->next({waiting_.size(), unsettled_.size(), held});
}

hicache_code ReloadEngine::run() {
  if (rank_ == 0) {
    front_.emplace(setup_);
  }
  for (;;) {
    TickInput input;
    Code code = Code::ok;
    if (front_) {
      input = front_input();
      code = share_.bus.publish(input);
      share_.bus.note_finished(uniform_.requests + uniform_.aborts);
    } else {
      code = share_.bus.take(rank_, input);
    }
    if (code != Code::ok) {
      return static_cast<hicache_code>(code);
    }
    if (input.stop != 0) {
      note_end();
      return HICACHE_OK;
    }
    if (const hicache_code passed = pass(input); passed != HICACHE_OK) {
      return passed;
    }
  }
}

hicache_code ReloadEngine::pass(const TickInput& input) {
  client_.begin_tick(++tick_);
  client_.collect(is_idle_ ? kIdleMs : 0);
  is_idle_ = true;
  offers_.clear();
  if (input.aborted != TickInput::kNone) {
    abort(input.aborted);
  }
  for (std::uint64_t i = 0; i < input.arrivals; ++i) {
    waiting_.push_back({});
    waiting_.back().request = input.first_arrival + i;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    bool is_served = false;
    if (const hicache_code code = step(waiting_[i], is_served); code != HICACHE_OK) {
      return code;
    }
    if (!is_served) {
      std::swap(waiting_[kept++], waiting_[i]);
    }
  }
  waiting_.resize(kept);
  die_if_due();
  if (const std::uint64_t delay_ns = draws_.tick_delay_ns(); delay_ns != 0) {
    sleep_until_ns(monotonic_ns() + delay_ns);
  }
  return tick();
}

void ReloadEngine::abort(std::uint64_t request) {
  Waiting* const at = find(request);
  HC_CHECK(at != nullptr && at->state == State::held);
  static_cast<void>(hicache_group_withdraw(client_.group(), request));
  unlock(*at);
  waiting_.erase(waiting_.begin() + (at - waiting_.data()));
  ++uniform_.aborts;
}

hicache_code ReloadEngine::step(Waiting& at, bool& is_served) {
  if (at.state == State::fresh) {
    if (const hicache_code code = look(at); code != HICACHE_OK) {
      return code;
    }
  }
  return at.state == State::ready ? serve(at, is_served) : HICACHE_OK;
}

// While a request waits the others come to speak to this rank: that is where its death hurts.
void ReloadEngine::die_if_due() const {
  const auto& kill = share_.plan.chaos.kill;
  if (kill && kill->rank == rank_ && tick_ >= kill->tick && has_held()) {
    share_.bus.note_death(monotonic_ns());
    ::kill(::getpid(), SIGKILL);
  }
}

hicache_code ReloadEngine::tick() {
  const bool is_open = has_held() || !unsettled_.empty();
  hicache_decisions decisions{};
  const hicache_code code = hicache_group_tick(client_.group(), &decisions);
  ++uniform_.ticks;
  if (decisions.reduced != 0) {
    ++uniform_.reduces;
    uniform_.reduces_idle += is_open ? 0U : 1U;
  }
  if (code != HICACHE_OK && !is_parting(code)) {
    return code;
  }
  const std::uint64_t death_ns = share_.bus.death_ns();
  if (code != HICACHE_OK && !is_apart_ && death_ns != 0) {
    totals_.learned_ns = monotonic_ns() - death_ns;
  }
  decide(decisions);
  for (const ReloadEvent& event : offers_) {
    note(event);
  }
  const bool is_certain = code == HICACHE_OK && decisions.diverged == 0;
  if (const hicache_code settled = settle(decisions, is_certain); settled != HICACHE_OK) {
    return settled;
  }
  return code == HICACHE_OK || is_apart_ ? HICACHE_OK : meet_again(code);
}

void ReloadEngine::decide(const hicache_decisions& decisions) {
  for (std::size_t i = 0; i < decisions.admit_count; ++i) {
    Waiting* const at = find(decisions.admits[i].request);
    HC_CHECK(at != nullptr && at->state == State::held);
    at->state = State::ready;
    at->is_admitted = true;
    at->brought = std::min(decisions.admits[i].pages, at->bound);
    ++uniform_.admitted;
    if (rank_ == 0) {
      share_.boards.admitted()[at->request] = tick_;
    }
    // What came for it must not go before its turn.
    Match found;
    if (match(at->request, found) == HICACHE_OK) {
      static_cast<void>(lock(*at, found.anchor));
    }
  }
  for (std::size_t i = 0; i < decisions.recompute_count; ++i) {
    Waiting* const at = find(decisions.recomputes[i].request);
    HC_CHECK(at != nullptr && at->state == State::held);
    HC_CHECK(decisions.recomputes[i].reason < uniform_.recomputed.size());
    at->state = State::ready;
    ++uniform_.recomputed[decisions.recomputes[i].reason];
    if (decisions.recomputes[i].reason != HICACHE_RECOMPUTE_TOO_SHORT) {
      refuse(at->request);
    }
  }
  is_idle_ = is_idle_ && decisions.admit_count + decisions.recompute_count == 0;
}

// Nothing was read back, whatever the cache holds: that is not what the model judges.
void ReloadEngine::refuse(std::uint64_t request) {
  std::erase_if(offers_, [&](const ReloadEvent& event) { return event.request == request; });
  ReloadEvent event;
  event.kind = ReloadEvent::Kind::refused;
  event.request = static_cast<std::uint32_t>(request);
  note(event);
}

// Not certain: the ranks have settled stores of which some may still run here.
hicache_code ReloadEngine::settle(const hicache_decisions& decisions, bool is_certain) {
  if (!is_certain) {
    if (const hicache_code code = client_.await_stores(); code != HICACHE_OK) {
      return code;
    }
  }
  for (std::size_t i = 0; i < decisions.store_count; ++i) {
    const auto at = unsettled_.find(decisions.stores[i].store);
    HC_CHECK(at != unsettled_.end());
    rows_.give_back(at->second.rows);
    unsettled_pages_ -= at->second.rows.size();
    note(at->second.event);
    unsettled_.erase(at);
    ++(decisions.stores[i].durable != 0 ? uniform_.stores_durable : uniform_.stores_lost);
  }
  return HICACHE_OK;
}

// Once: who does not come now is taken for gone for good.
hicache_code ReloadEngine::meet_again(hicache_code why) {
  bool kept = false;
  const hicache_code code =
      client_.join(why == HICACHE_DISCONNECTED ? kMeetAgainMs : kMeetLateMs, kept);
  is_apart_ = code != HICACHE_OK;
  totals_.is_apart = is_apart_ ? 1 : 0;
  if (!is_apart_ && !kept) {
    for (Waiting& at : waiting_) {
      at.lock.reset();
    }
  }
  return HICACHE_OK;
}

void ReloadEngine::note_end() {
  const hicache_group_stats stats = client_.stats();
  uniform_.divergences = stats.divergences;
  uniform_.l2_drops = stats.l2_drops;
  totals_.bytes_reloaded = stats.bytes_reloaded;
  totals_.agreement = stats.agreement;
  totals_.hook_calls = client_.hook_calls();
  for (std::uint16_t kind = 0; kind < setup_.plan.space.kinds.size(); ++kind) {
    totals_.region_bytes_of_reloads += region_->unspoiled(kNobodysRow, kind);
  }
}

hicache_code ReloadEngine::forget() { return hicache_group_clear(client_.group()); }

void ReloadEngine::rest() {
  client_.collect(0);
  hicache_decisions decisions{};
  static_cast<void>(hicache_group_tick(client_.group(), &decisions));
}

}  // namespace hc
