// SPDX-License-Identifier: Apache-2.0
// group_tick: the collective of a simulated group, its chaos, and the laws about it.
#include <algorithm>

#include "tests/sim/group/group_driver.h"

namespace hc::sim {

namespace {

constexpr std::uint64_t kRestTicks = 100'000;
constexpr std::uint32_t kNodesPlenty = 64;

bool same(const ReloadDecisions& a, const ReloadDecisions& b) {
  const auto equal = [](const auto& x, const auto& y, auto&& key) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](const auto& i, const auto& j) { return key(i) == key(j); });
  };
  return a.diverged == b.diverged && a.l2_dropped == b.l2_dropped &&
         equal(a.admits, b.admits,
               [](const auto& at) { return std::pair(at.request, at.pages); }) &&
         equal(a.recomputes, b.recomputes,
               [](const auto& at) { return std::pair(at.request, at.reason); }) &&
         equal(a.starts, b.starts,
               [](const auto& at) { return std::pair(at.op, at.suffix.hashes); }) &&
         equal(a.stores, b.stores, [](const auto& at) { return std::pair(at.store, at.durable); });
}

}  // namespace

// Ranks see pages come and go at different times; in the long run they see the same.
void GroupDriver::churn_index() {
  for (std::uint64_t left = prng_.below(3); left > 0; --left) {
    const Prompt& at = scenario_.prompts[prng_.below(scenario_.prompts.size())];
    const PageHash& hash = at.hashes[prng_.below(at.hashes.size())];
    const bool comes = prng_.percent(60);
    const bool trailing = prng_.percent(70);
    for (const auto& rank : ranks_) {
      if (!prng_.percent(scenario_.skew_percent)) {
        comes ? rank->put_page(hash, trailing) : rank->lose_page(hash);
      }
    }
  }
}

// An input that only one rank has seen: offered and taken back, so that nothing but the digest
// tells.
void GroupDriver::plant_divergence() {
  const Prompt& at = scenario_.prompts.front();
  SimRank& rank = *ranks_[prng_.below(ranks_.size())];
  if (is_planted_ || !rank.controller.is_open()) {
    return;
  }
  const RequestId id{~std::uint64_t{0}};
  Suffix suffix;
  suffix.hashes = at.hashes;
  suffix.owners = at.owners;
  suffix.anchor_hash = scenario_.tree.seed;
  static_cast<void>(rank.controller.offer(id, suffix));
  rank.controller.release(id);
  is_planted_ = true;
  trace_.add("divergence", rank.number());
}

void GroupDriver::cause_chaos() {
  if (!prng_.percent(scenario_.chaos_percent)) {
    return;
  }
  const std::uint64_t what = prng_.below(4);
  SimRank& one = *ranks_[prng_.below(ranks_.size())];
  if (what == 0) {
    plant_divergence();
  } else if (what == 1) {
    one.reattach();
    trace_.add("reattach", one.number());
  } else {
    const bool cold = prng_.one_in(2);
    const bool dies = one.has_daemon();
    tally_.deaths += dies ? 1U : 0U;
    trace_.add(dies ? "daemon dies" : "daemon returns", one.daemon(), cold ? 1 : 0);
    for (const auto& rank : ranks_) {
      if (rank->daemon() == one.daemon()) {
        dies ? rank->lose_daemon() : rank->daemon_returns(cold);
      }
    }
  }
}

// What comes between encode and apply: facts on some ranks, inputs on all.
void GroupDriver::late_facts(bool offers) {
  for (const auto& rank : ranks_) {
    if (prng_.one_in(2)) {
      rank->deliver(tick_, prng_);
    }
  }
  if (offers && prng_.one_in(3)) {
    act_once(true);
  }
}

void GroupDriver::check_equal(const SimRank& rank) const {
  const SimRank& first = *ranks_.front();
  laws_.expect(same(rank.decisions, first.decisions), 1, "ranks decide differently");
  laws_.expect(rank.controller.digest() == first.controller.digest(), 1, "digests differ");
  laws_.expect(rank.controller.epoch() == first.controller.epoch(), 1, "epochs differ");
}

void GroupDriver::check_quota() const {
  for (const auto& rank : ranks_) {
    const OwnerCounts frames = rank->frames();
    for (const std::uint32_t pages : frames) {
      laws_.expect(rank->has_leftovers() || pages <= scenario_.quota_pages, 7,
                   "a daemon has given more than the quota");
    }
  }
}

void GroupDriver::take_decisions() {
  const ReloadDecisions& what = ranks_.front()->decisions;
  for (const auto& rank : ranks_) {
    check_equal(*rank);
    rank->carry_out(rank->decisions, tick_);
    laws_.expect(rank->could_serve(), 8, "a reload is started that a rank has not got");
  }
  check_quota();
  for (const ReloadDecisions::Start& start : what.starts) {
    ops_.push_back(start.op);
    trace_.add("start", start.op.value, start.suffix.hashes.size());
  }
  // A copy: what the engine does with them changes nothing here, but reads on.
  const ReloadDecisions decided = what;
  for (const auto& [id, pages] : decided.admits) {
    const auto at = waiting_.find(id.value);
    laws_.expect(at != waiting_.end(), 2, "a request is admitted that does not wait");
    // Without a record to split with, a match may end early.
    laws_.expect(scenario_.tree.nodes_max < kNodesPlenty ||
                     match(at->second.prompt).pages() > at->second.pages,
                 9, "what was admitted has gone before the engine hears of it");
  }
  for (const auto& [id, pages] : decided.admits) {
    const auto at = waiting_.find(id.value);
    const std::uint32_t number = at->second.prompt;
    waiting_.erase(at);
    ++tally_.admitted;
    tally_.pages_admitted += pages;
    trace_.add("admit", id.value, pages);
    load(number);
  }
  for (const auto& [id, reason] : decided.recomputes) {
    const auto at = waiting_.find(id.value);
    laws_.expect(at != waiting_.end(), 2, "a request is told to recompute that does not wait");
    const std::uint32_t number = at->second.prompt;
    waiting_.erase(at);
    ++tally_.recomputed;
    trace_.add("recompute", id.value, static_cast<std::uint64_t>(reason));
    compute(number);
  }
  if (decided.diverged) {
    laws_.expect(decided.admits.empty() && decided.starts.empty(), 6,
                 "something is admitted although the ranks differ");
    laws_.expect(std::all_of(waiting_.begin(), waiting_.end(),
                             [this](const auto& at) { return at.second.since > tick_; }),
                 6, "a request goes on waiting after a divergence");
  }
}

void GroupDriver::reduce(bool offers) {
  ++tally_.reduces;
  std::vector<SimRank*> order;
  for (const auto& rank : ranks_) {
    order.push_back(rank.get());
  }
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[prng_.below(i)]);
  }
  AgreementVector reduced;
  for (SimRank* const rank : order) {
    rank->deliver(tick_, prng_);  // skew: others have encoded by now
    rank->answer_candidates();
    reduced.reduce(rank->encode(now_ms_));
  }
  std::vector<ReloadOpId> landed;
  std::copy_if(ops_.begin(), ops_.end(), std::back_inserter(landed), [&](ReloadOpId op) {
    return std::all_of(ranks_.begin(), ranks_.end(), [op](const auto& rank) {
      return rank->controller.is_reading(op) && rank->has_landed(op) && rank->has_daemon();
    });
  });
  late_facts(offers);
  const bool is_abandoned = prng_.percent(scenario_.chaos_percent) && prng_.one_in(8);
  tally_.abandoned += is_abandoned ? 1U : 0U;
  for (const auto& rank : ranks_) {
    is_abandoned ? rank->controller.abandon(rank->decisions)
                 : rank->controller.apply(reduced, rank->decisions);
  }
  const bool diverged = ranks_.front()->decisions.diverged;
  laws_.expect(is_abandoned || diverged == is_planted_, 6,
               is_planted_ ? "a divergence is not seen" : "a divergence is seen where none is");
  tally_.divergences += diverged ? 1U : 0U;
  is_planted_ = false;
  for (const ReloadOpId op : landed) {
    laws_.expect(!ranks_.front()->controller.is_reading(op), 5,
                 "a reload that has landed everywhere is not admitted in that tick");
  }
  take_decisions();
  std::erase_if(ops_, [this](ReloadOpId op) {
    return !ranks_.front()->controller.is_reading(op);
  });
}

void GroupDriver::tick(bool offers) {
  ++tick_;
  ++tally_.ticks;
  now_ms_ += prng_.between(1, 30);
  clock_.advance_to(Instant{static_cast<std::int64_t>(now_ms_) * kNsPerMs});
  churn_index();
  act(offers);
  if (offers) {
    cause_chaos();
  }
  const bool needs = on_all("ranks differ about whether a tick reduces",
                            [](SimRank& rank) { return rank.controller.needs_tick(); });
  if (needs) {
    reduce(offers);
  } else {
    for (const auto& rank : ranks_) {
      rank->deliver(tick_, prng_);
    }
  }
  if (tick_ % 16 == 0) {
    for (const auto& rank : ranks_) {
      rank->tree.check();
    }
  }
}

void GroupDriver::come_to_rest() {
  for (const auto& rank : ranks_) {
    if (!rank->has_daemon()) {
      rank->daemon_returns(false);
    }
  }
  std::uint64_t left = kRestTicks;
  const auto is_busy = [](const auto& rank) {
    return rank->controller.is_open() || rank->controller.unsettled_stores() > 0 ||
           !rank->is_quiet();
  };
  while (std::any_of(ranks_.begin(), ranks_.end(), is_busy) && left > 0) {
    tick(false);
    --left;
  }
  laws_.expect(waiting_.empty() && left > 0, 2, "a request is held for ever");
  tick_ += 1000;
  unlock_due();
  std::vector<LeaseHandle> released;
  for (const auto& rank : ranks_) {
    rank->tree.evict_l1(~std::uint32_t{0});
    rank->tree.drop_l2();
    released.clear();
    rank->tree.take_released(released);
    ReloadDecisions last;
    last.releases = released;
    rank->carry_out(last, tick_);
    laws_.expect(rank->lease_count() == 0, 3, "a lease is left over");
    laws_.expect(rank->tree.node_count() == 0 && rank->tree.l1_pages() == 0, 3,
                 "a node is left over");
    for (const std::uint32_t pages : rank->quota.used()) {
      laws_.expect(pages == 0, 3, "quota is left over");
    }
  }
}

void GroupDriver::run() {
  for (std::uint32_t left = ticks_; left > 0; --left) {
    tick(true);
  }
  come_to_rest();
}

}  // namespace hc::sim
