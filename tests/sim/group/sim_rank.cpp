// SPDX-License-Identifier: Apache-2.0
// sim_rank: the daemon's side of one rank.
#include "tests/sim/group/sim_rank.h"

#include <algorithm>
#include <utility>

namespace hc::sim {

SimRank::SimRank(const GroupScenario& scenario, std::uint32_t number, Prng prng)
    : quota(scenario.owners, scenario.quota_pages),
      tree(scenario.tree, quota),
      controller(scenario.controller, tree, quota),
      scenario_(scenario),
      number_(number),
      prng_(prng),
      next_lease_(1 + std::uint64_t{number} * 1'000'000) {}

void SimRank::put_page(const PageHash& hash, bool trailing) {
  pages_.insert(hash);
  if (trailing) {
    trailing_.insert(hash);
  }
}

void SimRank::lose_page(const PageHash& hash) {
  pages_.erase(hash);
  trailing_.erase(hash);
}

void SimRank::clear_index() {
  pages_.clear();
  trailing_.clear();
}

SimRank::InFlight SimRank::draw(Held pages, std::uint64_t tick) {
  InFlight out;
  out.pages = std::move(pages);
  out.due = tick + prng_.between(0, scenario_.delay_ticks);
  out.fails = prng_.percent(scenario_.fail_percent);
  out.lost = prng_.percent(scenario_.lost_percent);
  return out;
}

void SimRank::release(LeaseHandle lease) { leases_.erase(lease); }

void SimRank::end_reload(std::uint64_t op, const InFlight& reload, bool landed) {
  const LeaseHandle lease = landed ? next_lease_++ : kNoLeaseHandle;
  if (landed) {
    leases_.emplace(lease, reload.pages);
  }
  leftovers_ -= reload.leftover ? 1U : 0U;
  if (controller.reload_ended(ReloadOpId{op}, landed, lease)) {
    if (landed) {
      landed_.insert(op);
    }
  } else {
    release(lease);
  }
}

void SimRank::end_store(std::uint64_t store, const InFlight& at, bool durable) {
  const LeaseHandle lease = durable ? next_lease_++ : kNoLeaseHandle;
  if (durable) {
    leases_.emplace(lease, at.pages);
    for (const PageHash& hash : at.pages.hashes) {
      put_page(hash, true);
    }
  }
  leftovers_ -= at.leftover ? 1U : 0U;
  if (at.leftover || !controller.store_ended(store, durable, lease)) {
    release(lease);
  }
}

void SimRank::deliver(std::uint64_t tick, Prng& order) {
  std::vector<std::pair<bool, std::uint64_t>> due;
  for (const auto& [op, at] : reloads_) {
    if (at.due <= tick && !at.lost) {
      due.emplace_back(true, op);
    }
  }
  for (const auto& [store, at] : stores_) {
    if (at.due <= tick) {
      due.emplace_back(false, store);
    }
  }
  while (!due.empty()) {
    const std::size_t pick = order.below(due.size());
    const auto [is_reload, id] = due[pick];
    due.erase(due.begin() + static_cast<std::ptrdiff_t>(pick));
    auto& table = is_reload ? reloads_ : stores_;
    const InFlight at = table.at(id);
    table.erase(id);
    is_reload ? end_reload(id, at, !at.fails) : end_store(id, at, !at.fails);
  }
}

// Every page is there, and of the last `trailing` of them the trailing kind as well.
bool SimRank::can_serve(std::span<const PageHash> hashes) const {
  const std::size_t last = std::min<std::size_t>(hashes.size(), scenario_.trailing);
  return std::all_of(hashes.begin(), hashes.end(),
                     [this](const PageHash& hash) { return pages_.count(hash) != 0; }) &&
         std::all_of(hashes.end() - static_cast<std::ptrdiff_t>(last), hashes.end(),
                     [this](const PageHash& hash) { return trailing_.count(hash) != 0; });
}

std::uint32_t SimRank::usable(const Candidate& candidate) const {
  std::uint32_t n = has_daemon_ ? candidate.limit : 0;
  while (n > 0 && !can_serve(std::span(candidate.suffix.hashes).first(n))) {
    --n;
  }
  return n;
}

void SimRank::answer_candidates() {
  for (const Candidate& candidate : controller.candidates()) {
    controller.set_count(candidate.id, usable(candidate));
  }
}

const AgreementVector& SimRank::encode(std::uint64_t now_ms) {
  is_told_ = std::exchange(came_anew_, false);
  return controller.encode(now_ms);
}

// Old mappings are kept until the group has heard that the daemon came anew.
void SimRank::carry_out(const ReloadDecisions& what, std::uint64_t tick) {
  if (std::exchange(is_told_, false)) {
    lost_.clear();
  }
  for (const ReloadDecisions::Start& start : what.starts) {
    can_serve_ = can_serve_ && (!has_daemon_ || can_serve(start.suffix.hashes));
  }
  for (const LeaseHandle lease : what.releases) {
    release(lease);
  }
  for (const ReloadOpId op : what.cancels) {
    const auto at = reloads_.find(op.value);
    if (at != reloads_.end()) {
      at->second.lost = false;
      at->second.due = std::min(at->second.due, tick + prng_.between(0, scenario_.delay_ticks));
      leftovers_ += what.diverged && !at->second.leftover ? 1U : 0U;
      at->second.leftover = at->second.leftover || what.diverged;
    }
  }
  if (what.diverged) {
    for (auto& [store, at] : stores_) {
      leftovers_ += at.leftover ? 0U : 1U;
      at.leftover = true;
    }
  }
  for (const ReloadDecisions::Start& start : what.starts) {
    Held pages{start.suffix.hashes, quota.count(start.suffix.owners)};
    InFlight at = draw(std::move(pages), tick + 1);
    at.fails = at.fails || !has_daemon_;
    reloads_.emplace(start.op.value, std::move(at));
  }
}

void SimRank::begin_store(std::uint64_t store, const PageRun& path, std::uint32_t first,
                          std::uint64_t tick) {
  Held pages{{path.hashes.begin() + first, path.hashes.end()},
             quota.count(path.owners.subspan(first))};
  InFlight at = draw(std::move(pages), tick);
  at.fails = at.fails || !has_daemon_;
  at.lost = false;
  stores_.emplace(store, std::move(at));
}

void SimRank::fail_all() {
  const auto reloads = std::exchange(reloads_, {});
  for (const auto& [op, at] : reloads) {
    end_reload(op, at, false);
  }
  const auto stores = std::exchange(stores_, {});
  for (const auto& [store, at] : stores) {
    end_store(store, at, false);
  }
}

void SimRank::lose_daemon() {
  has_daemon_ = false;
  fail_all();
  for (const auto& [lease, held] : leases_) {
    lost_.insert(lease);
  }
  leases_.clear();
  controller.daemon_lost();
}

void SimRank::daemon_returns(bool cold) {
  has_daemon_ = true;
  if (cold) {
    clear_index();
  }
  controller.daemon_came_anew();
  came_anew_ = true;
}

void SimRank::reattach() { fail_all(); }

OwnerCounts SimRank::frames() const {
  OwnerCounts out(quota.owners(), 0);
  const auto add = [&](const Held& held) {
    for (std::size_t owner = 0; owner < out.size(); ++owner) {
      out[owner] += held.counts[owner];
    }
  };
  for (const auto& [lease, held] : leases_) {
    add(held);
  }
  for (const auto& [op, at] : reloads_) {
    add(at.pages);
  }
  for (const auto& [store, at] : stores_) {
    add(at.pages);
  }
  return out;
}

const PageHash* SimRank::leased_page(LeaseHandle lease, std::uint32_t page) const {
  const auto at = leases_.find(lease);
  return at == leases_.end() || page >= at->second.hashes.size() ? nullptr
                                                                 : &at->second.hashes[page];
}

}  // namespace hc::sim
