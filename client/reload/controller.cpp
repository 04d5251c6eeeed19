// SPDX-License-Identifier: Apache-2.0
// controller: inputs, facts and the vector; what follows from it is in controller_apply.
#include "client/reload/controller.h"

#include <algorithm>

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::uint64_t kStorePasses = 16;  // unsettled stores alone reduce this seldom

// What an input was, in the digest.
enum class Noted : std::uint64_t { offered = 0x10, joined, declined, released, store_begun };

}  // namespace

Controller::Controller(const ControllerOptions& options, AttachPoint& tree, PageQuota& quota)
    : options_(options), tree_(tree), quota_(quota) {
  HC_CHECK(options.ops_max > 0 && options.ops_max <= kAgreedOpsMax);
  HC_CHECK(options.pages_min > 0 && options.op_pages_max >= options.pages_min);
  candidates_.reserve(options.waiting_max);
  digest_.restart(epoch_);
  tree_.restart_fingerprint(epoch_);
}

bool Controller::waits(RequestId request) const {
  const auto has = [request](const std::vector<RequestId>& waiters) {
    return std::find(waiters.begin(), waiters.end(), request) != waiters.end();
  };
  return std::any_of(candidates_.begin(), candidates_.end(),
                     [&](const Candidate& at) { return has(at.waiters); }) ||
         std::any_of(ops_.begin(), ops_.end(),
                     [&](const ReloadOp& op) { return op.in_use && has(op.waiters); });
}

bool Controller::anchor_is_clean(const Suffix& suffix) const {
  const AttachPoint::Anchor anchor = tree_.look(suffix.anchor, suffix.hashes.front());
  if (!anchor.is_clean) {
    return false;
  }
  if (options_.hash.page_tokens == 0 || suffix.first_tokens.empty()) {
    return anchor.live_hash == suffix.anchor_hash;
  }
  std::vector<PageHash> hashes;
  const auto hashed =
      hash_pages(anchor.live_hash, std::span(suffix.first_tokens), options_.hash, hashes);
  return hashed.has_value() && hashes.size() == 1 && hashes.front() == suffix.hashes.front();
}

// Leading pages of the suffix that an operation may have, and that the quota could ever hold.
std::uint32_t Controller::pages_limit(const Suffix& suffix) const {
  const std::size_t most = std::min<std::size_t>(suffix.hashes.size(), options_.op_pages_max);
  OwnerCounts counts(quota_.owners(), 0);
  for (std::size_t page = 0; page < most; ++page) {
    if (++counts[suffix.owners[page]] > quota_.pages_max()) {
      return static_cast<std::uint32_t>(page);
    }
  }
  return static_cast<std::uint32_t>(most);
}

Decline Controller::judge(RequestId request, const Suffix& suffix) const {
  HC_CHECK(suffix.hashes.size() == suffix.owners.size());
  if (suffix.hashes.empty()) {
    return Decline::empty;
  }
  if (waits(request)) {
    return Decline::duplicate;
  }
  if (std::min<std::size_t>(suffix.hashes.size(), options_.op_pages_max) < options_.pages_min) {
    return Decline::too_short;
  }
  if (!anchor_is_clean(suffix)) {
    return Decline::anchor;
  }
  if (pages_limit(suffix) < options_.pages_min) {
    return Decline::quota;
  }
  return candidates_.size() >= options_.waiting_max ? Decline::full : Decline::none;
}

// The same first hash speaks of the same pages from the root on: one reload serves both.
bool Controller::piggyback(RequestId request, const PageHash& first) {
  for (Candidate& candidate : candidates_) {
    if (candidate.suffix.hashes.front() == first) {
      candidate.waiters.push_back(request);
      return true;
    }
  }
  for (ReloadOp& op : ops_) {
    if (op.in_use && op.phase == ReloadPhase::reading && op.suffix.hashes.front() == first) {
      op.waiters.push_back(request);
      return true;
    }
  }
  return false;
}

Decline Controller::take_offer(RequestId request, Suffix suffix) {
  ++counters_.offers;
  const Decline decline = judge(request, suffix);
  if (decline != Decline::none) {
    ++counters_.declined[static_cast<std::size_t>(decline)];
    digest_.add(static_cast<std::uint64_t>(Noted::declined));
    digest_.add(static_cast<std::uint64_t>(decline));
    return decline;
  }
  ++counters_.held;
  const PageHash first = suffix.hashes.front();
  const bool joined = piggyback(request, first);
  digest_.add(static_cast<std::uint64_t>(joined ? Noted::joined : Noted::offered));
  digest_.add(request.value);
  digest_.add(first);
  if (joined) {
    ++counters_.piggybacked;
    return decline;
  }
  Candidate candidate;
  candidate.id = CandidateId{epoch_ << kEpochShift | next_id_++};
  candidate.limit = pages_limit(suffix);
  candidate.suffix = std::move(suffix);
  candidate.waiters.push_back(request);
  candidates_.push_back(std::move(candidate));
  return decline;
}

Decline Controller::offer(RequestId request, Suffix suffix) {
  if (is_encoded_ && !HC_MUTANT(input_taken_at_once)) {
    inputs_.push_back(OfferInput{request, std::move(suffix)});
    return Decline::none;
  }
  return take_offer(request, std::move(suffix));
}

// The list that it stood in; nullptr when it waits for nothing.
std::vector<RequestId>* Controller::remove_waiter(RequestId request) {
  std::vector<RequestId>* found = nullptr;
  for (Candidate& candidate : candidates_) {
    found = std::erase(candidate.waiters, request) > 0 ? &candidate.waiters : found;
  }
  for (ReloadOp& op : ops_) {
    found = std::erase(op.waiters, request) > 0 ? &op.waiters : found;
  }
  if (found != nullptr) {
    digest_.add(static_cast<std::uint64_t>(Noted::released));
    digest_.add(request.value);
  }
  return found;
}

void Controller::take_release(RequestId request) {
  const std::vector<RequestId>* const waiters = remove_waiter(request);
  if (waiters == nullptr || !waiters->empty()) {
    return;
  }
  std::erase_if(candidates_, [](const Candidate& candidate) { return candidate.waiters.empty(); });
  for (ReloadOp& op : ops_) {
    if (&op.waiters == waiters) {
      ++counters_.unwanted;
      drain(op);
    }
  }
}

void Controller::release(RequestId request) {
  if (is_encoded_ && !HC_MUTANT(input_taken_at_once)) {
    inputs_.push_back(request);
    return;
  }
  take_release(request);
}

std::optional<std::uint64_t> Controller::begin_store(const PageRun& path, std::uint32_t first) {
  HC_CHECK(!is_encoded_);
  HC_CHECK(first < path.hashes.size() && path.hashes.size() == path.owners.size());
  StoreLedger::Store store;
  store.charged = quota_.count(path.owners.subspan(first));
  digest_.add(static_cast<std::uint64_t>(Noted::store_begun));
  digest_.add(path.hashes.back());
  if (stores_.size() >= options_.stores_max || !tree_.make_room(store.charged)) {
    return std::nullopt;
  }
  quota_.take(store.charged);
  store.path.assign(path.hashes.begin(), path.hashes.end());
  store.owners.assign(path.owners.begin(), path.owners.end());
  store.first = first;
  return epoch_ << kEpochShift | stores_.begin(std::move(store));
}

// Of this rank; local.
bool Controller::has_answered_all() const {
  return std::all_of(ops_.begin(), ops_.end(),
                     [](const ReloadOp& op) { return !op.in_use || op.answered; });
}

bool Controller::needs_tick() {
  ++passes_;
  if (HC_MUTANT(reduce_skipped_when_idle) && candidates_.empty() && has_answered_all()) {
    return false;
  }
  return is_open() || (!stores_.is_empty() && passes_ % kStorePasses == 0);
}

std::span<Candidate> Controller::candidates() {
  return std::span(candidates_).first(std::min(candidates_.size(), kAgreedCandidatesMax));
}

void Controller::set_count(CandidateId id, std::uint32_t usable) {
  for (Candidate& candidate : candidates()) {
    if (candidate.id == id) {
      candidate.count = std::min(usable, candidate.limit);
      return;
    }
  }
}

ReloadOp* Controller::find(ReloadOpId id) {
  for (ReloadOp& op : ops_) {
    if (op.in_use && op.id == id) {
      return &op;
    }
  }
  return nullptr;
}

bool Controller::reload_ended(ReloadOpId id, bool landed, LeaseHandle lease) {
  ReloadOp* const op = find(id);
  if (op == nullptr || op->answered) {
    return false;
  }
  op->answered = true;
  op->failed = !landed;
  if (op->phase == ReloadPhase::draining) {
    ++counters_.late_landings;
    return HC_MUTANT(late_landing_kept);
  }
  op->lease = lease;
  return true;
}

bool Controller::store_ended(std::uint64_t store, bool durable, LeaseHandle lease) {
  const std::uint64_t sequence = store & ((std::uint64_t{1} << kEpochShift) - 1);
  return store >> kEpochShift == epoch_ && stores_.settle(sequence, durable, lease);
}

bool Controller::is_reading(ReloadOpId id) const {
  return std::any_of(ops_.begin(), ops_.end(), [id](const ReloadOp& op) {
    return op.in_use && op.id == id && op.phase == ReloadPhase::reading;
  });
}

// The handles stay: they keep the old mapping readable until they are released.
void Controller::daemon_lost() {
  for (ReloadOp& op : ops_) {
    op.failed = op.failed || (op.in_use && op.answered);
  }
  stores_.lose_leases();
}

ReloadState Controller::state_of(const ReloadOp& op, std::uint64_t now_ms) const {
  if (op.phase == ReloadPhase::draining) {
    return op.answered ? ReloadState::landed : ReloadState::pending;
  }
  if (op.answered) {
    const bool failed = op.failed && !HC_MUTANT(failure_called_landed);
    return failed ? ReloadState::failed : ReloadState::landed;
  }
  if (HC_MUTANT(deadline_ignored)) {
    return ReloadState::pending;
  }
  return op.deadline_ms && now_ms >= *op.deadline_ms ? ReloadState::expired
                                                     : ReloadState::pending;
}

DecisionDigest Controller::seen_digest() const {
  DecisionDigest out = digest_;
  if (HC_MUTANT(digest_over_local_facts)) {
    out.add(has_answered_all() ? 1 : 0);
  }
  out.add(tree_.fingerprint());
  out.add(stores_.size());
  for (const std::uint32_t pages : quota_.used()) {
    out.add(pages);
  }
  return out;
}

// Once per tick: a fact that comes later waits for the next one.
const AgreementVector& Controller::encode(std::uint64_t now_ms) {
  if (is_encoded_) {
    return encoded_;
  }
  is_encoded_ = true;
  ++counters_.reduces;
  encoded_ = AgreementVector{};
  encoded_.set_pair(AgreementVector::kSequence, static_cast<std::int64_t>(sequence_));
  encoded_.set_pair(AgreementVector::kEpoch, static_cast<std::int64_t>(epoch_));
  encoded_.set_pair(AgreementVector::kDigest, digest());
  encoded_.set_instances(instances_);
  stores_.encode(encoded_);
  const auto open = candidates();
  encoded_candidates_ = static_cast<std::uint32_t>(open.size());
  for (std::size_t i = 0; i < open.size(); ++i) {
    encoded_.counts()[i] = open[i].count;
    open[i].count = 0;  // asked anew for the next tick
  }
  for (std::size_t slot = 0; slot < ops_.size(); ++slot) {
    ReloadOp& op = ops_[slot];
    if (!op.in_use) {
      continue;
    }
    if (!op.deadline_ms) {
      op.deadline_ms = now_ms + options_.ttl_ms;
    }
    encoded_.states()[slot] = static_cast<std::int64_t>(state_of(op, now_ms));
  }
  return encoded_;
}

}  // namespace hc
