// SPDX-License-Identifier: Apache-2.0
// client_ops: submitting operations and taking completions.
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "client/argument_error.h"
#include "client/client.h"
#include "shm/doorbell.h"

namespace hc {

namespace {

constexpr std::chrono::milliseconds kOverdueCheck(10);

OpRecord record_of(const RequestEntry& entry) {
  OpRecord record;
  record.verb = static_cast<Verb>(entry.verb);
  record.region = entry.region;
  record.user_data = entry.client_data;
  record.late_at = deadline_after_ms(std::uint64_t{entry.deadline_ms} + kLateGraceMs);
  return record;
}

void clear_event(int event_fd) {
  std::uint64_t count = 0;
  // Not readable is fine: then there is nothing to clear.
  static_cast<void>(::read(event_fd, &count, sizeof count) == ssize_t{sizeof count});
}

}  // namespace

PageRules Client::rules_of(Verb verb, std::uint8_t kind_mask) const {
  return PageRules{plan_.space, plan_.shard, verb, kind_mask, nullptr};
}

Result<std::uint64_t> Client::launch(Session::Submission submission) {
  OpRecord record = record_of(submission.entry);
  record.on_device = submission.record.on_device;
  record.by_rank = std::move(submission.record.by_rank);
  record.unasked = submission.record.unasked;
  submission.record = std::move(record);
  submission.record.page_count = static_cast<std::uint32_t>(submission.pages.size());
  const Deadline late_at = submission.record.late_at;
  const auto name = session_->submit(std::move(submission));
  if (!name && name.error().code == Code::protocol) {
    break_session(name.error().text);
    return not_attached();
  }
  HC_TRY(name);
  if (event_wanted_ && late_at < listening_until_) {
    listening_until_ = late_at;
    static_cast<void>(ring_doorbell(nudge_fd_.get()));
  }
  return op_id_of(*name);
}

Result<RequestEntry> Client::judge_op(Verb verb, const hicache_op* op, Pages pages,
                                      PageRules& rules) {
  auto entry = check_op(verb, op, plan_.space);
  HC_TRY(entry);
  rules.kind_mask = op->kind_mask;
  if (verb == Verb::store || verb == Verb::load) {
    HC_TRY_VOID(check_bounds("op.region", op->region, {0, kRegionsPerSession - 1U}));
    const RegionSlot& slot = regions_.at(op->region);
    if (slot.state == RegionState::failed) {
      return make_error(
          Code::bad_argument,
          "op.region = " + std::to_string(op->region) +
              ": the daemon refused it when the client attached again: " + slot.refusal);
    }
    if (slot.state != RegionState::registered || slot.given_up) {
      return make_error(Code::bad_argument, "op.region = " + std::to_string(op->region) +
                                                ": must be a registered region");
    }
    rules.region = &slot.known->plan.shape;
    HC_TRY_VOID(check_kinds_of_region(rules, op->region));
  }
  HC_TRY_VOID(check_pages(rules, pages.data, pages.count));
  return entry;
}

// Not whether the present daemon has taken the region: that may differ between ranks.
Result<void> Client::judge_store(const hicache_op* op, Pages pages) {
  const Lock lock(mutex_);
  HC_TRY_VOID(check_op(Verb::store, op, plan_.space));
  HC_TRY_VOID(check_bounds("op.region", op->region, {0, kRegionsPerSession - 1U}));
  const RegionSlot& slot = regions_.at(op->region);
  if (slot.known == nullptr) {
    return make_error(Code::bad_argument, "op.region = " + std::to_string(op->region) +
                                              ": must be a registered region");
  }
  PageRules rules = rules_of(Verb::store, op->kind_mask);
  rules.region = &slot.known->plan.shape;
  HC_TRY_VOID(check_kinds_of_region(rules, op->region));
  return check_pages(rules, pages.data, pages.count);
}

Result<std::uint64_t> Client::submit(Verb verb, const hicache_op* op, Pages pages) {
  const Lock lock(mutex_);
  PageRules rules = rules_of(verb, 0);
  const auto entry = judge_op(verb, op, pages, rules);
  HC_TRY(entry);
  HC_TRY_VOID(check_data(false));
  Session::Submission submission;
  submission.entry = *entry;
  submission.rules = &rules;
  submission.pages = {pages.data, pages.count};
  HC_TRY_VOID(place_operation(submission, *op));
  return launch(std::move(submission));
}

Result<std::uint64_t> Client::launch_release(RequestEntry entry, const Lease& lease, bool asked) {
  Session::Submission submission;
  submission.entry = entry;
  submission.entry.lease = lease.daemon_lease.value;
  submission.record.unasked = !asked;
  return launch(submission);
}

// Without a session the daemon can't be told now. It may keep the lease for the next session, so it
// is told then.
Result<std::uint64_t> Client::release(const hicache_op* op, std::uint64_t handle) {
  const Lock lock(mutex_);
  auto entry = check_op(Verb::release, op, plan_.space);
  HC_TRY(entry);
  const Lease* const lease = leases_.find(handle);
  if (lease == nullptr || lease->given_up) {
    return make_error(Code::bad_argument,
                      "lease = " + std::to_string(handle) + ": must be a lease that is held");
  }
  if (!lease->alive) {
    leases_.erase(handle);
    return make_error(Code::not_found,
                      "lease = " + std::to_string(handle) + " had ended with its session or space");
  }
  if (!attached()) {
    leases_.give_up(handle);
    orphans_.push_back(handle);
    return not_attached();
  }
  auto op_id = launch_release(*entry, *lease, true);
  HC_TRY(op_id);
  leases_.erase(handle);
  return op_id;
}

void Client::give_back(std::uint64_t lease) {
  const Lock lock(mutex_);
  leases_.give_up(lease);
  orphans_.push_back(lease);
  give_back_orphans();
}

void Client::give_back_orphans() {
  RequestEntry entry{};
  entry.verb = static_cast<std::uint8_t>(Verb::release);
  entry.deadline_ms = kDeadlineMsMax;
  while (!orphans_.empty()) {
    const Lease* const lease = leases_.find(orphans_.back());
    const bool is_alive = lease != nullptr && lease->alive;
    if (is_alive && (!attached() || !launch_release(entry, *lease, false))) {
      return;  // as slots come free, or with the next session
    }
    leases_.erase(orphans_.back());
    orphans_.pop_back();
  }
}

Result<std::uint64_t> Client::flush(const hicache_op* op) {
  const Lock lock(mutex_);
  auto entry = check_op(Verb::flush, op, plan_.space);
  HC_TRY(entry);
  HC_TRY_VOID(check_attached());
  Session::Submission submission;
  submission.entry = *entry;
  return launch(submission);
}

Result<std::uint64_t> Client::cancel(const hicache_op* op, std::uint64_t target) {
  const Lock lock(mutex_);
  auto entry = check_op(Verb::cancel, op, plan_.space);
  HC_TRY(entry);
  if (target == 0) {
    return make_error(Code::bad_argument, "target_op_id = 0: must be the id of an operation");
  }
  HC_TRY_VOID(check_attached());
  const OpName name = op_name_of(target);
  if (session_->ops().find(name) == nullptr) {
    return make_error(Code::not_found,
                      "target_op_id = " + std::to_string(target) + " is not in flight");
  }
  Session::Submission submission;
  submission.entry = *entry;
  submission.entry.target_slot = name.slot;
  submission.entry.target_sequence = name.sequence;
  return launch(submission);
}

std::size_t Client::collect(std::span<hicache_completion> out) {
  if (!orphans_.empty()) {
    give_back_orphans();
  }
  if (event_wanted_) {
    // Before the rings are read: what comes afterwards makes it readable again.
    clear_event(event_fd_.get());
  }
  const std::size_t waiting = ready_.size() - ready_head_;
  if (attached() && waiting < out.size()) {
    take_from_session(out.size() - waiting);
  }
  if (session_ != nullptr) {
    const Deadline now = std::chrono::steady_clock::now();
    if (now - overdue_checked_ >= kOverdueCheck) {
      overdue_checked_ = now;
      session_->report_overdue(now, ready_);
    }
  }
  const std::size_t count = std::min(out.size(), ready_.size() - ready_head_);
  const auto first = ready_.begin() + static_cast<std::ptrdiff_t>(ready_head_);
  std::copy(first, first + static_cast<std::ptrdiff_t>(count), out.begin());
  ready_head_ += count;
  if (ready_head_ == ready_.size()) {
    ready_.clear();
    ready_head_ = 0;
  }
  if (event_wanted_ && (!ready_.empty() || (attached() && session_->has_news()))) {
    static_cast<void>(ring_doorbell(event_fd_.get()));
  }
  return count;
}

std::uint32_t Client::wait_flags() const {
  return (waiters_ > 0 ? kWaitFutex : 0U) |
         (event_wanted_ || rank_copier_ != nullptr ? kWaitPacket : 0U);
}

Result<std::size_t> Client::poll(std::span<hicache_completion> out) {
  const Lock lock(mutex_);
  const std::size_t count = collect(out);
  if (count == 0 && session_ == nullptr) {
    return not_attached();
  }
  return count;
}

Result<std::size_t> Client::wait(std::span<hicache_completion> out, std::uint32_t timeout_ms) {
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  while (true) {
    if (const std::size_t count = collect(out); count > 0) {
      return count;
    }
    if (session_ == nullptr) {
      return not_attached();
    }
    const int left_ms = std::min(poll_timeout_ms(deadline), static_cast<int>(kWaitSliceMs));
    if (left_ms == 0) {
      return make_error(Code::timed_out, "no completion in " + std::to_string(timeout_ms) + " ms");
    }
    if (session_->closed()) {
      changed_.wait_for(lock, std::chrono::milliseconds(left_ms));
      continue;
    }
    if (!sleep_until_news(lock, left_ms)) {
      const auto slice_ms = std::min(left_ms, static_cast<int>(kNoFutexSliceMs));
      changed_.wait_for(lock, std::chrono::milliseconds(slice_ms));
    }
  }
}

// False, at once, where the kernel refuses to wait on the wake word (a seccomp filter may).
bool Client::sleep_until_news(Lock& lock, int slice_ms) {
  const std::chrono::nanoseconds slice = std::chrono::milliseconds(slice_ms);
  // The copy keeps the word mapped while this thread sleeps on it.
  const std::shared_ptr<Session> session = session_;
  Code woken = Code::ok;
  ++waiters_;
  const std::uint32_t seen = session->begin_wait(wait_flags());
  if (!session->has_news()) {
    lock.unlock();
    woken = wait_on(session->wake_word(), seen, slice.count());
    lock.lock();
  }
  --waiters_;
  session->end_wait(wait_flags());
  return woken != Code::io_error;
}

}  // namespace hc
