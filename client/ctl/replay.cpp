// SPDX-License-Identifier: Apache-2.0
// replay: the loop over requests, with kills in between.
#include "client/ctl/replay.h"

#include <algorithm>
#include <limits>

#include "client/ctl/amount.h"
#include "client/ctl/monotonic.h"

namespace hc {

namespace {

// An owned kind has a budget of its own for each owner, so pages of different owners are evicted
// in orders of their own.
std::vector<std::uint16_t> make_groups(const RankSetup& setup) {
  const auto& kinds = setup.plan.space.kinds;
  const bool owned = std::any_of(kinds.begin(), kinds.end(), [](const KindSpec& kind) {
    return kind.placement == Placement::owned;
  });
  std::vector<std::uint16_t> groups(setup.trace.block_count(), 0);
  for (std::uint32_t block = 0; owned && block < groups.size(); ++block) {
    groups[block] = owner_of_id(setup.trace.id_of(block), setup.plan.ranks);
  }
  return groups;
}

}  // namespace

std::vector<std::uint32_t> blocks_after_kill(const LruModel& model, const DurabilityLedger& ledger,
                                             std::span<const std::uint8_t> present) {
  std::vector<std::uint32_t> left;
  for (std::uint32_t block = 0; block < present.size(); ++block) {
    if (present[block] != 0 || (model.holds(block) && ledger.acknowledged(block))) {
      left.push_back(block);
    }
  }
  std::sort(left.begin(), left.end(), [&](std::uint32_t a, std::uint32_t b) {
    return ledger.last_touch(a) < ledger.last_touch(b);
  });
  return left;
}

Replay::Replay(const RankSetup& setup, RankGroup& group, PrivateDaemon* daemon,
               Progress& progress)
    : setup_(setup),
      group_(group),
      daemon_(daemon),
      progress_(progress),
      model_(setup.trace.block_count(), setup.plan.l3_blocks),
      ledger_(make_groups(setup)) {}

Result<ReplayCounts> Replay::run() {
  auto next_restart = setup_.plan.restart_at.begin();
  const std::uint64_t total = setup_.trace.request_count();
  for (std::uint64_t request = 0; request < total; ++request) {
    if (next_restart != setup_.plan.restart_at.end() && *next_restart == request) {
      HC_TRY_VOID(restart(request));
      counts_.elapsed_ns += counts_.restarts.back().restart_ns;
      ++next_restart;
    }
    const std::uint64_t begin_ns = monotonic_ns();
    HC_TRY_VOID(serve(request));
    counts_.elapsed_ns += monotonic_ns() - begin_ns;
  }
  progress_.clear();
  RankCommand settle;
  settle.verb = RankVerb::settle;
  auto settled = group_.ask(settle);
  HC_TRY(settled);
  take_acks();
  std::uint64_t lost = 0;
  auto present = look(lost);
  HC_TRY(present);
  counts_.pages_present_at_end = *present;
  counts_.lost_durable_pages = ledger_.lost_count();
  return counts_;
}

Result<std::uint64_t> Replay::least_pages(RankVerb verb, std::uint64_t request,
                                          std::uint64_t argument) {
  RankCommand command;
  command.verb = verb;
  command.request = request;
  command.argument = argument;
  auto replies = group_.ask(command);
  HC_TRY(replies);
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const RankReply& reply : *replies) {
    least = std::min(least, reply.pages);
  }
  return least;
}

Result<void> Replay::serve(std::uint64_t request) {
  const auto blocks = setup_.trace.blocks_of(request);
  if (blocks.empty()) {
    ledger_.served({request, blocks, 0, true, false});
    ++counts_.requests;
    return {};
  }
  auto promised = least_pages(RankVerb::exists, request, 0);
  HC_TRY(promised);
  std::uint64_t hit = 0;
  if (*promised > 0) {
    auto loaded = least_pages(RankVerb::load, request, *promised);
    HC_TRY(loaded);
    hit = *loaded;
  }
  RankCommand store;
  store.verb = RankVerb::store;
  store.request = request;
  auto replies = group_.ask(store);
  HC_TRY(replies);
  bool touched = true;
  bool stored_new = false;
  for (const RankReply& reply : *replies) {
    touched = touched && reply.refused == 0;
    stored_new = stored_new || reply.pages > 0;
  }
  ledger_.served({request, blocks, hit, touched, stored_new});
  counts_.model_hit_blocks += model_.hit_prefix(blocks);
  model_.touch_request(blocks);
  ++counts_.requests;
  counts_.referenced_blocks += blocks.size();
  counts_.promised_blocks += *promised;
  counts_.hit_blocks += hit;
  if (!counts_.restarts.empty()) {
    counts_.hit_blocks_after_restart += hit;
    counts_.referenced_after_restart += blocks.size();
  }
  progress_.step(request + 1, setup_.trace.request_count(),
                 "request " + format_count(request + 1) + " of " +
                     format_count(setup_.trace.request_count()));
  return {};
}

Result<void> Replay::restart(std::uint64_t request) {
  HC_CHECK(daemon_ != nullptr);
  RestartCounts counts;
  counts.request = request;
  const std::uint64_t begin_ns = monotonic_ns();
  group_.watch_daemon(-1);
  daemon_->kill();
  HC_TRY_VOID(daemon_->start());
  group_.watch_daemon(daemon_->pidfd());
  RankCommand attached;
  attached.verb = RankVerb::attached;
  attached.argument = counts_.restarts.size() + 2;
  auto replies = group_.ask(attached);
  HC_TRY(replies);
  counts.restart_ns = monotonic_ns() - begin_ns;
  take_acks();
  ledger_.daemon_killed(request);
  for (std::uint32_t block = 0; block < setup_.trace.block_count(); ++block) {
    counts.acknowledged_pages += model_.holds(block) && ledger_.acknowledged(block) ? 1U : 0U;
  }
  auto present = look(counts.lost_pages);
  HC_TRY(present);
  counts.pages_present = *present;
  model_.start_again(blocks_after_kill(model_, ledger_, present_));
  counts_.restarts.push_back(counts);
  return {};
}

Result<std::uint64_t> Replay::look(std::uint64_t& lost) {
  RankCommand probe;
  probe.verb = RankVerb::probe;
  auto replies = group_.ask(probe);
  HC_TRY(replies);
  present_.assign(setup_.trace.block_count(), 1);
  for (std::uint32_t rank = 0; rank < setup_.plan.ranks; ++rank) {
    const auto found = setup_.boards.present(rank);
    for (std::size_t block = 0; block < present_.size(); ++block) {
      present_[block] = present_[block] != 0 && found[block] != 0 ? 1 : 0;
    }
  }
  lost = ledger_.check(present_);
  return static_cast<std::uint64_t>(std::count(present_.begin(), present_.end(), 1));
}

void Replay::take_acks() {
  std::vector<AckedRequests> ranks;
  for (std::uint32_t rank = 0; rank < setup_.plan.ranks; ++rank) {
    ranks.emplace_back(setup_.boards.acked(rank));
  }
  ledger_.take_acks(ranks);
}

}  // namespace hc
