// SPDX-License-Identifier: Apache-2.0
// reload_group_ops: what was decided becomes operations, and their completions become facts.
#include <algorithm>
#include <utility>

#include "client/group/reload_group.h"
#include "proto/check.h"

namespace hc {

namespace {

// Of what only gives back: it is bounded, and nobody waits for it.
constexpr std::uint32_t kGiveBackMs = 60'000;
// So that a burst of evictions leaves operation slots to the engine.
constexpr std::uint32_t kReleasesInFlightMax = 16;

}  // namespace

hicache_op ReloadGroup::internal_op() const {
  hicache_op op{};
  op.deadline_ms = plan_.controller.ttl_ms;
  return op;
}

// True: submitted, or never will be. False: every operation slot is taken now.
bool ReloadGroup::note(Kind kind, std::uint64_t id, const Result<std::uint64_t>& op_id) {
  if (op_id) {
    ops_.emplace(*op_id, Submitted{kind, id, ground_.lease_ends});
    return true;
  }
  return op_id.error().code != Code::busy;
}

bool ReloadGroup::submit_release(LeaseHandle lease) {
  hicache_op op = internal_op();
  op.deadline_ms = kGiveBackMs;
  const auto op_id = client_.release(&op, lease);
  releases_in_flight_ += op_id ? 1U : 0U;
  return note(Kind::release, lease, op_id);
}

bool ReloadGroup::submit_cancel(ReloadOpId id) {
  const auto found = std::find_if(reloads_.begin(), reloads_.end(),
                                  [id](const auto& at) { return at.second == id.value; });
  if (found == reloads_.end()) {
    return true;
  }
  hicache_op op = internal_op();
  op.deadline_ms = kGiveBackMs;
  return note(Kind::cancel, id.value, client_.cancel(&op, found->first));
}

// A reload that can't be submitted has failed here.
bool ReloadGroup::submit_start(const ReloadDecisions::Start& start) {
  pages_.clear();
  for (std::size_t i = 0; i < start.suffix.hashes.size(); ++i) {
    pages_.push_back({start.suffix.hashes[i].bytes.data(), sizeof(PageHash), 0,
                      start.suffix.owners[i], 0, nullptr});
  }
  hicache_op op = internal_op();
  op.user_data = start.request.value;
  const auto op_id = client_.submit(Verb::reload, &op, {pages_.data(), pages_.size()});
  if (!note(Kind::reload, start.op.value, op_id)) {
    return false;
  }
  if (op_id) {
    reloads_.emplace(*op_id, start.op.value);
  } else {
    static_cast<void>(controller_.reload_ended(start.op, false, kNoLeaseHandle));
  }
  return true;
}

bool ReloadGroup::submit_releases() {
  while (!releases_waiting_.empty() && releases_in_flight_ < kReleasesInFlightMax &&
         submit_release(releases_waiting_.front())) {
    releases_waiting_.pop_front();
  }
  return releases_waiting_.empty();
}

bool ReloadGroup::submit_stores() {
  while (!stores_waiting_.empty()) {
    const WaitingStore& store = stores_waiting_.front();
    if (!submit_store(store.op, store.number, store.pages)) {
      return false;
    }
    stores_waiting_.pop_front();
    --stats_.stores_in_flight;  // counted by the submission now
  }
  return true;
}

// False: every operation slot is taken. One that can't be submitted for another reason has failed
// here.
bool ReloadGroup::submit_store(const hicache_op& op, std::uint64_t number,
                               std::span<const hicache_page> pages) {
  const auto op_id = client_.submit(Verb::store, &op, {pages.data(), pages.size()});
  if (op_id) {
    ops_.emplace(*op_id, Submitted{Kind::store, number, ground_.lease_ends});
    ++stats_.stores_in_flight;
    return true;
  }
  if (op_id.error().code == Code::busy) {
    return false;
  }
  static_cast<void>(controller_.store_ended(number, false, kNoLeaseHandle));
  return true;
}

void ReloadGroup::hold_store(const hicache_op& op, std::uint64_t number,
                             std::span<const hicache_page> pages) {
  WaitingStore& store = stores_waiting_.emplace_back();
  store.op = op;
  store.number = number;
  store.pages.assign(pages.begin(), pages.end());
  std::size_t bytes = 0;
  for (const hicache_page& page : pages) {
    bytes += page.key_bytes + page.metadata_bytes;
  }
  store.bytes.reserve(bytes);  // what the pages point into must not move
  const auto keep = [&store](const std::uint8_t* from, std::size_t count) {
    store.bytes.insert(store.bytes.end(), from, from + count);
    return store.bytes.data() + store.bytes.size() - count;
  };
  for (hicache_page& page : store.pages) {
    page.key = keep(page.key, page.key_bytes);
    page.metadata = page.metadata_bytes == 0 ? nullptr : keep(page.metadata, page.metadata_bytes);
  }
  ++stats_.stores_in_flight;
}

// Leases first: they make the room that the others need.
void ReloadGroup::submit_waiting() {
  if (!submit_releases() || !submit_stores()) {
    return;
  }
  while (!starts_waiting_.empty()) {
    const bool is_wanted = controller_.is_reading(starts_waiting_.front().op);
    if (is_wanted && !submit_start(starts_waiting_.front())) {
      return;
    }
    if (!is_wanted) {  // it drains: nothing of it was ever begun
      static_cast<void>(controller_.reload_ended(starts_waiting_.front().op, false,
                                                 kNoLeaseHandle));
    }
    starts_waiting_.pop_front();
  }
}

// What has not begun when everything is dropped never does.
void ReloadGroup::carry_out() {
  if (decisions_.diverged) {
    stats_.stores_in_flight -= stores_waiting_.size();
    stores_waiting_.clear();
  }
  for (const LeaseHandle lease : decisions_.releases) {
    releases_waiting_.push_back(lease);
  }
  for (const ReloadOpId op : decisions_.cancels) {
    static_cast<void>(submit_cancel(op));  // else it ends by itself
  }
  for (ReloadDecisions::Start& start : decisions_.starts) {
    starts_waiting_.push_back(std::move(start));
  }
  submit_waiting();
}

Result<std::uint64_t> ReloadGroup::store(const hicache_op& given,
                                         std::span<const hicache_page> all, const PageRun& path,
                                         std::size_t first) {
  const auto pages = all.subspan(first);
  HC_TRY_VOID(client_.judge_store(&given, {pages.data(), pages.size()}));
  const std::uint64_t number =
      is_met() ? controller_.begin_store(path, static_cast<std::uint32_t>(first)).value_or(0) : 0;
  // What was evicted for it goes back first: the daemon counts too, in the order of the ring.
  std::vector<LeaseHandle> evicted;
  attach_point().take_released(evicted);
  releases_waiting_.insert(releases_waiting_.end(), evicted.begin(), evicted.end());
  const bool is_behind = !submit_releases() || !submit_stores();
  hicache_op op = given;
  if (number != 0) {
    op.flags = (op.flags | HICACHE_STORE_KEEP_LEASE) & ~HICACHE_STORE_EVERY_ACK;
    op.ack = HICACHE_ACK_DURABLE;
  }
  if (number == 0) {
    // The engine's own: its completion is not taken here.
    HC_TRY_VOID(client_.submit(Verb::store, &op, {pages.data(), pages.size()}));
    return 0;
  }
  if (is_behind || !submit_store(op, number, pages)) {
    hold_store(op, number, pages);
  }
  return number;
}

// What was granted before all leases ended, and is heard of only now, is nothing any more.
bool ReloadGroup::has_lease(const Submitted& at, const hicache_completion& completion) {
  return completion.code == HICACHE_OK && completion.lease != 0 &&
         at.lease_ends == client_.ground().lease_ends;
}

void ReloadGroup::end_reload(const Submitted& at, const hicache_completion& completion) {
  const bool has_landed = has_lease(at, completion);
  stats_.bytes_reloaded += completion.bytes;
  const LeaseHandle lease = has_landed ? completion.lease : kNoLeaseHandle;
  const bool is_wanted = controller_.reload_ended(ReloadOpId{at.id}, has_landed, lease);
  if (completion.lease != 0 && (!is_wanted || !has_landed)) {
    releases_waiting_.push_back(completion.lease);
  }
}

// What the spill policy keeps off the disk is durable nowhere.
void ReloadGroup::end_store(const Submitted& at, const hicache_completion& completion) {
  const bool is_durable = has_lease(at, completion);
  const LeaseHandle lease = is_durable ? completion.lease : kNoLeaseHandle;
  const bool is_wanted = controller_.store_ended(at.id, is_durable, lease);
  if (completion.lease != 0 && (!is_wanted || !is_durable)) {
    releases_waiting_.push_back(completion.lease);
  }
}

bool ReloadGroup::take(const hicache_completion& completion) {
  const auto found = ops_.find(completion.op_id);
  if (found == ops_.end()) {
    return false;
  }
  if (completion.terminal == 0) {
    return true;
  }
  const Submitted at = found->second;
  ops_.erase(found);
  switch (at.kind) {
    case Kind::reload:
      reloads_.erase(completion.op_id);
      end_reload(at, completion);
      break;
    case Kind::store:
      --stats_.stores_in_flight;
      end_store(at, completion);
      break;
    case Kind::release: --releases_in_flight_; break;
    case Kind::cancel: break;
  }
  return true;
}

}  // namespace hc
