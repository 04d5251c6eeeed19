// SPDX-License-Identifier: Apache-2.0
// controller_apply: what follows from a reduced vector: equal on all ranks.
#include <algorithm>
#include <utility>

#include "client/reload/controller.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::uint32_t kRoundsMax = 4;  // of a count of trailing kinds

// What was decided, in the digest.
enum class Decision : std::uint64_t {
  admitted = 0x20,
  recomputed,
  started,
  closed,
  settled,
  l2_dropped,
};

Recompute reason_of(Decline decline) {
  switch (decline) {
    case Decline::none:
    case Decline::empty:
    case Decline::duplicate:
    case Decline::too_short: return Recompute::too_short;
    case Decline::anchor: return Recompute::anchor;
    case Decline::quota:
    case Decline::full: return Recompute::no_room;
  }
  HC_UNREACHABLE();
}

}  // namespace

void Controller::apply(const AgreementVector& reduced, ReloadDecisions& out) {
  HC_CHECK(is_encoded_);
  is_encoded_ = false;
  out.clear();
  // Before anything is applied: a rank that decided otherwise must not be followed.
  const bool is_agreed = reduced.is_equal(AgreementVector::kSequence) &&
                         reduced.is_equal(AgreementVector::kEpoch) &&
                         reduced.is_equal(AgreementVector::kDigest);
  if (is_agreed || HC_MUTANT(divergence_ignored)) {
    ++sequence_;
    apply_late_releases();
    apply_instances(reduced, out);
    apply_stores(reduced, out);
    apply_states(reduced, out);
    apply_counts(reduced, out);
    tree_.end_tick();
  } else {
    ++counters_.divergences;
    out.diverged = true;
    sequence_ = static_cast<std::uint64_t>(reduced.highest(AgreementVector::kSequence)) + 1;
    drop_all({static_cast<std::uint64_t>(reduced.highest(AgreementVector::kEpoch)) + 1,
              reduced.highest_instances()},
             out);
  }
  apply_inputs(out);
  take_local(out);
}

void Controller::restart(Footing footing, ReloadDecisions& out) {
  is_encoded_ = false;
  out.clear();
  out.diverged = true;
  sequence_ = 0;
  drop_all(footing, out);
  apply_inputs(out);
  take_local(out);
}

// A daemon came anew somewhere: its leases are gone, so those nodes go on all ranks.
void Controller::apply_instances(const AgreementVector& reduced, ReloadDecisions& out) {
  const std::uint64_t highest = reduced.highest_instances();
  if (highest <= agreed_instances_ || HC_MUTANT(instances_ignored)) {
    return;
  }
  agreed_instances_ = highest;
  ++counters_.l2_drops;
  tree_.drop_l2();
  out.l2_dropped = true;
  digest_.add(static_cast<std::uint64_t>(Decision::l2_dropped));
}

void Controller::settle_store(std::uint64_t sequence, StoreLedger::Store& store, bool durable,
                              ReloadDecisions& out) {
  digest_.add(static_cast<std::uint64_t>(Decision::settled));
  digest_.add(sequence << 1 | (durable ? 1U : 0U));
  out.stores.push_back({epoch_ << kEpochShift | sequence, durable});
  const PageRun path{store.path, store.owners};
  durable = durable || HC_MUTANT(failed_store_adopted);
  if (!durable || !tree_.adopt_stored(path, store.first, {store.lease, store.charged})) {
    quota_.give_back(store.charged);
    releases_.push_back(store.lease);
  }
}

void Controller::apply_stores(const AgreementVector& reduced, ReloadDecisions& out) {
  stores_.apply(reduced, [&](std::uint64_t sequence, StoreLedger::Store& store, bool durable) {
    settle_store(sequence, store, durable, out);
  });
}

void Controller::apply_states(const AgreementVector& reduced, ReloadDecisions& out) {
  for (std::size_t slot = 0; slot < ops_.size(); ++slot) {
    ReloadOp& op = ops_[slot];
    if (!op.in_use) {
      continue;
    }
    const std::int64_t state = reduced.states()[slot];
    if (op.phase == ReloadPhase::reading) {
      apply_reading(op, state, out);
    } else if (state == static_cast<std::int64_t>(ReloadState::landed)) {
      if (!HC_MUTANT(quota_kept)) {
        quota_.give_back(op.charged);
      }
      close(op);
    }
  }
}

void Controller::apply_reading(ReloadOp& op, std::int64_t state, ReloadDecisions& out) {
  if (op.waiters.empty()) {
    ++counters_.unwanted;
    drain(op);
    return;
  }
  if (HC_MUTANT(local_state_believed) && op.answered && !op.failed) {
    state = static_cast<std::int64_t>(ReloadState::landed);
  }
  if (HC_MUTANT(admitted_in_order) && has_older(op)) {
    return;
  }
  if (state == static_cast<std::int64_t>(ReloadState::landed)) {
    admit(op, out);
  } else if (state == static_cast<std::int64_t>(ReloadState::failed)) {
    recompute(op.waiters, Recompute::failed, out);
    drain(op);
  } else if (state < 0) {
    recompute(op.waiters, Recompute::expired, out);
    drain(op);
  }
}

bool Controller::has_older(const ReloadOp& op) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const ReloadOp& other) {
    return other.in_use && other.phase == ReloadPhase::reading && other.id < op.id;
  });
}

// On all ranks at once. Nothing writes to its frames any more, so it need not drain.
void Controller::admit(ReloadOp& op, ReloadDecisions& out) {
  const PageRun pages = op.suffix.run(op.suffix.hashes.size());
  const bool is_clean = HC_MUTANT(anchor_unchecked) || anchor_is_clean(op.suffix);
  if (HC_MUTANT(lease_dropped_at_admit)) {
    releases_.push_back(op.lease);
  }
  if (!is_clean || !tree_.insert(op.suffix.anchor, pages, {op.lease, op.charged})) {
    recompute(op.waiters, is_clean ? Recompute::no_room : Recompute::anchor, out);
    releases_.push_back(op.lease);
    quota_.give_back(op.charged);
    close(op);
    return;
  }
  const auto count = static_cast<std::uint32_t>(pages.hashes.size());
  for (const RequestId request : op.waiters) {
    digest_.add(static_cast<std::uint64_t>(Decision::admitted));
    digest_.add(request.value);
    out.admits.push_back({request, count});
    ++counters_.admitted;
    if (HC_MUTANT(first_waiter_only)) {
      break;
    }
  }
  counters_.pages_admitted += count;
  close(op);
}

void Controller::recompute(std::vector<RequestId>& waiters, Recompute reason,
                           ReloadDecisions& out) {
  for (const RequestId request : waiters) {
    digest_.add(static_cast<std::uint64_t>(Decision::recomputed));
    digest_.add(request.value);
    digest_.add(static_cast<std::uint64_t>(reason));
    out.recomputes.push_back({request, reason});
    ++counters_.recomputed[static_cast<std::size_t>(reason)];
  }
  waiters.clear();
}

// Its pages stay charged until every rank has said that nothing writes to them.
void Controller::drain(ReloadOp& op) {
  HC_CHECK(op.waiters.empty() && op.phase == ReloadPhase::reading);
  op.phase = ReloadPhase::draining;
  if (op.answered) {
    releases_.push_back(std::exchange(op.lease, kNoLeaseHandle));
  } else {
    cancels_.push_back(op.id);
  }
  if (HC_MUTANT(drain_skipped)) {
    quota_.give_back(op.charged);
    close(op);
  }
}

void Controller::close(ReloadOp& op) {
  digest_.add(static_cast<std::uint64_t>(Decision::closed));
  digest_.add(op.id.value);
  inflight_pages_ -= static_cast<std::uint32_t>(op.suffix.hashes.size());
  --ops_open_;
  op = ReloadOp{};
}

void Controller::apply_counts(const AgreementVector& reduced, ReloadDecisions& out) {
  std::vector<Candidate> open = std::move(candidates_);
  candidates_.clear();
  candidates_.reserve(options_.waiting_max);
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (i >= encoded_candidates_ || !settle_count(open[i], reduced.counts()[i], out)) {
      candidates_.push_back(std::move(open[i]));
    }
  }
}

// True: it is no candidate any more.
bool Controller::settle_count(Candidate& candidate, std::int64_t count, ReloadDecisions& out) {
  if (candidate.waiters.empty()) {
    return true;
  }
  const auto pages = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(count, 0, candidate.limit));
  if (pages < options_.pages_min) {
    recompute(candidate.waiters, Recompute::too_short, out);
    return true;
  }
  const bool is_steady = candidate.agreed == pages || HC_MUTANT(one_round_is_enough);
  if (options_.trailing_kinds && !is_steady) {
    if (++candidate.rounds >= kRoundsMax) {
      recompute(candidate.waiters, Recompute::unsteady, out);
      return true;
    }
    candidate.agreed = pages;
    candidate.limit = pages;
    return false;
  }
  return start(candidate, pages, out);
}

bool Controller::start(Candidate& candidate, std::uint32_t pages, ReloadDecisions& out) {
  if (ops_open_ >= options_.ops_max || inflight_pages_ + pages > options_.inflight_pages_max) {
    return false;  // waits for one that ends
  }
  Suffix& suffix = candidate.suffix;
  const OwnerCounts charged = quota_.count(std::span(suffix.owners).first(pages));
  const bool is_clean = anchor_is_clean(suffix);
  const bool has_room = is_clean && tree_.make_room(charged);
  if (is_clean && !has_room && !out.admits.empty() && !std::exchange(candidate.has_waited, true)) {
    return false;  // what was admitted in this tick may go in the next one
  }
  // Room comes from evictions, which may take the anchor.
  if (!has_room || !anchor_is_clean(suffix)) {
    recompute(candidate.waiters, is_clean ? Recompute::no_room : Recompute::anchor, out);
    return true;
  }
  quota_.take(charged);
  const auto slot = std::find_if(ops_.begin(), ops_.end(),
                                 [](const ReloadOp& op) { return !op.in_use; });
  HC_CHECK(slot != ops_.end());
  slot->in_use = true;
  slot->id = ReloadOpId{epoch_ << kEpochShift | next_id_++};
  suffix.hashes.resize(pages);
  suffix.owners.resize(pages);
  slot->suffix = std::move(suffix);
  slot->charged = charged;
  slot->waiters = std::move(candidate.waiters);
  ++ops_open_;
  inflight_pages_ += pages;
  digest_.add(static_cast<std::uint64_t>(Decision::started));
  digest_.add(slot->id.value);
  digest_.add(slot->suffix.hashes.back());
  out.starts.push_back({slot->id, slot->suffix, slot->waiters.front()});
  return true;
}

// Who left while the vector was being reduced must not hear of it. Only the waiters go here: the
// places of candidates and operations are those of the vector.
void Controller::apply_late_releases() {
  for (const Input& input : inputs_) {
    if (const RequestId* const released = std::get_if<RequestId>(&input)) {
      static_cast<void>(remove_waiter(*released));
    }
  }
}

// In the order in which they came, after the tick that they were too late for.
void Controller::apply_inputs(ReloadDecisions& out) {
  for (Input& input : std::exchange(inputs_, {})) {
    if (const RequestId* const released = std::get_if<RequestId>(&input)) {
      take_release(*released);
      continue;
    }
    auto& late = std::get<OfferInput>(input);
    const Decline decline = take_offer(late.request, std::move(late.suffix));
    if (decline != Decline::none && decline != Decline::duplicate) {
      std::vector<RequestId> waiters{late.request};
      recompute(waiters, reason_of(decline), out);
    }
  }
}

// What the ranks hold may differ now; only nothing at all is known to be equal.
void Controller::drop_all(Footing footing, ReloadDecisions& out) {
  apply_late_releases();
  for (Candidate& candidate : candidates_) {
    recompute(candidate.waiters, Recompute::diverged, out);
  }
  candidates_.clear();
  for (ReloadOp& op : ops_) {
    if (!op.in_use) {
      continue;
    }
    recompute(op.waiters, Recompute::diverged, out);
    if (op.answered) {
      releases_.push_back(op.lease);
    } else {
      cancels_.push_back(op.id);  // its end will find nobody, and give back its lease
    }
    quota_.give_back(op.charged);
    op = ReloadOp{};
  }
  ops_open_ = 0;
  inflight_pages_ = 0;
  stores_.restart([&](std::uint64_t sequence, StoreLedger::Store& store, bool durable) {
    settle_store(sequence, store, durable, out);
  });
  tree_.drop_l2();
  out.l2_dropped = true;
  epoch_ = footing.epoch;
  next_id_ = 1;
  passes_ = 0;
  agreed_instances_ = footing.instances;
  digest_.restart(footing.epoch);
  tree_.restart_fingerprint(footing.epoch);
}

void Controller::take_local(ReloadDecisions& out) {
  tree_.take_released(releases_);
  std::erase(releases_, kNoLeaseHandle);
  out.releases = std::exchange(releases_, {});
  out.cancels = std::exchange(cancels_, {});
}

}  // namespace hc
