// SPDX-License-Identifier: Apache-2.0
// reload_group: the tick: facts in, one reduce, decisions out.
#include "client/group/reload_group.h"

#include <chrono>
#include <utility>

#include "proto/check.h"

namespace hc {

ReloadGroup::ReloadGroup(Client& client, GroupPlan plan)
    : client_(client),
      plan_(std::move(plan)),
      quota_(plan_.owners, plan_.quota_pages),
      tree_(plan_.engine_tree ? PrefixTreeOptions{1, {}} : plan_.tree, quota_),
      engine_tree_(plan_.engine_tree
                       ? std::optional<EngineTree>(std::in_place, *plan_.engine_tree, quota_)
                       : std::nullopt),
      controller_(plan_.controller, attach_point(), quota_),
      kind_(plan_.agreement),
      ground_(client.ground()) {}

// The daemon ends what is left with the session; here it ends now.
ReloadGroup::~ReloadGroup() {
  agreement_.reset();
  client_.forget_board();
  ReloadDecisions last;
  clear_tree();
  controller_.abandon(last);
  for (const ReloadOpId op : last.cancels) {
    static_cast<void>(submit_cancel(op));
  }
  last.releases.insert(last.releases.end(), releases_waiting_.begin(), releases_waiting_.end());
  for (const LeaseHandle lease : last.releases) {
    client_.give_back(lease);
  }
}

std::uint64_t ReloadGroup::now_ms() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// Leases have ended under the group's feet: with their daemon, their session or their space. What
// the others are told is the same. A session that ends and whose leases go on in the next one costs
// what was in flight, and nothing that lies in L2.
void ReloadGroup::note_ground() {
  const Client::Ground now = client_.ground();
  const bool has_lost = now.lease_ends != ground_.lease_ends;
  if (has_lost) {
    controller_.daemon_lost();
  }
  if (has_lost && now.is_attached) {
    controller_.daemon_came_anew();
    ground_.lease_ends = now.lease_ends;
  }
  ground_.is_attached = now.is_attached;
}

// A rank without a daemon finds nothing.
void ReloadGroup::answer_candidates() {
  for (const Candidate& candidate : controller_.candidates()) {
    pages_.clear();
    for (std::size_t i = 0; i < candidate.limit; ++i) {
      pages_.push_back({candidate.suffix.hashes[i].bytes.data(), sizeof(PageHash), 0,
                        candidate.suffix.owners[i], 0, nullptr});
    }
    hicache_prefix found{};
    const auto asked =
        client_.exists_prefix({pages_.data(), pages_.size()}, OwnedParts::mine, found);
    if (!asked) {
      continue;
    }
    const bool is_worth = plan_.worth == nullptr || found.usable_pages == 0 ||
                          plan_.worth(plan_.worth_context, candidate.waiters.front().value,
                                      found.usable_pages, found.resident_pages) != 0;
    controller_.set_count(candidate.id, is_worth ? found.usable_pages : 0);
  }
}

Code ReloadGroup::tick(bool& reduced) {
  ++stats_.ticks;
  reduced = false;
  decisions_.clear();
  if (agreement_ == nullptr) {
    submit_waiting();
    tell_untold();
    return Code::disconnected;
  }
  note_ground();
  submit_waiting();
  if (!controller_.needs_tick()) {
    tell_untold();
    return Code::ok;
  }
  answer_candidates();
  AgreementVector vector = controller_.encode(now_ms());
  ++stats_.reduces;
  reduced = true;
  const Code code = agreement_->reduce(vector, plan_.limits);
  if (code == Code::ok) {
    controller_.apply(vector, decisions_);
  } else {
    agreement_.reset();
    controller_.abandon(decisions_);
  }
  carry_out();
  tell_untold();
  return code;
}

bool ReloadGroup::end_lease(LeaseHandle lease) {
  return engine_tree_ && engine_tree_->end_lease(lease);
}

void ReloadGroup::clear_tree() {
  if (engine_tree_) {
    engine_tree_->clear();
  } else {
    tree_.clear();
  }
}

void ReloadGroup::clear() {
  clear_tree();
  controller_.abandon(decisions_);
  keep_for_next_tick();
}

// Carried out now, told then.
void ReloadGroup::keep_for_next_tick() {
  carry_out();
  untold_.recomputes.insert(untold_.recomputes.end(), decisions_.recomputes.begin(),
                            decisions_.recomputes.end());
  untold_.stores.insert(untold_.stores.end(), decisions_.stores.begin(), decisions_.stores.end());
  decisions_.clear();
}

void ReloadGroup::withdraw(RequestId request) {
  controller_.release(request);
  std::erase_if(untold_.recomputes,
                [request](const auto& at) { return at.request == request; });
}

void ReloadGroup::tell_untold() {
  auto& recomputes = decisions_.recomputes;
  recomputes.insert(recomputes.begin(), untold_.recomputes.begin(), untold_.recomputes.end());
  auto& stores = decisions_.stores;
  stores.insert(stores.begin(), untold_.stores.begin(), untold_.stores.end());
  untold_.clear();
}

}  // namespace hc
