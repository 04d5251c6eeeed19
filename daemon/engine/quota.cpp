// SPDX-License-Identifier: Apache-2.0
// quota: reservations of groups, and the counts of what is leased.
#include "daemon/engine/quota.h"

#include <algorithm>
#include <map>

#include "daemon/engine/core.h"
#include "proto/budget.h"
#include "proto/check.h"
#include "proto/limits.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

bool ends_with_attach(const QuotaAsk& ask, SessionId session) {
  return std::find(ask.replaced.begin(), ask.replaced.end(), session) != ask.replaced.end();
}

std::uint64_t page_key(LeasedPage leased) {
  return std::uint64_t{leased.owner} << 32 | leased.page.value;
}

// Without owned kinds there is one owner, whatever the request says.
std::uint16_t owner_in(const QuotaGroup& group, std::uint16_t owner) {
  const std::uint16_t counted = group.leased.size() == 1 ? std::uint16_t{0} : owner;
  HC_CHECK(counted < group.leased.size());
  return counted;
}

}  // namespace

QuotaGroup* QuotaTable::find(FamilyNo family, const std::string& name) const {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const auto& group) {
    return group->family == family && group->name == name;
  });
  return found == groups_.end() ? nullptr : found->get();
}

std::uint64_t QuotaTable::slack_pages(const Family& family) {
  return std::max<std::uint64_t>(1, std::min<std::uint64_t>(kPagesPerOpMax, family.pages_l2 / 8));
}

std::uint32_t QuotaTable::ops_reserved(const QuotaAsk* ask) const {
  std::uint32_t count = ask == nullptr ? 0 : kOpSlotsPerSession;
  for (const SessionId id : members_) {
    const EngineSession* session = core_.sessions.find(id);
    const bool ends = (session->ended && !session->switches) ||
                      (ask != nullptr && ends_with_attach(*ask, id));
    count += ends ? 0 : kOpSlotsPerSession - session->ops;
  }
  return count;
}

// Distinct pages that sessions without quota lease, and go on leasing after the attach.
std::uint64_t QuotaTable::leased_by_others(const Family& family, const QuotaAsk& ask) const {
  std::map<std::uint32_t, std::uint32_t> ending;
  for (const SessionId id : ask.replaced) {
    const EngineSession* session = core_.sessions.find(id);
    const bool here = session != nullptr && session->quota.group == nullptr &&
                      &core_.family_of(id) == &family;
    for (const LeaseId lease : here ? core_.leases.leases_of(id) : std::vector<LeaseId>{}) {
      for (const PageId page : core_.leases.pages(lease)) {
        ++ending[page.value];
      }
    }
  }
  std::uint64_t count = family.leased_without_quota + family.with_ranks;
  for (const auto& [page, leases] : ending) {
    count -= core_.catalog->page(PageId{page}).leases_without_quota == leases ? 1U : 0U;
  }
  return count;
}

Result<void> QuotaTable::judge(const Family& family, const QuotaAsk& ask) const {
  const auto pages = quota_pages(family.descriptor, "quota_bytes", ask.quota_bytes);
  HC_TRY(pages);
  HC_TRY_VOID(judge_equal(family, ask));
  if (ask.quota_bytes == 0) {
    return {};
  }
  HC_TRY_VOID(judge_room(family, ask, *pages));
  return judge_tables(family, ask, *pages);
}

// A rank without quota counts in no group: the others would not know what it holds.
Result<void> QuotaTable::judge_equal(const Family& family, const QuotaAsk& ask) const {
  for (const SessionId id : core_.sessions.all()) {
    const EngineSession* session = core_.sessions.find(id);
    const bool ours = !ask.group.empty() && session->group == ask.group &&
                      &core_.family_of(id) == &family;
    const QuotaGroup* group = session->quota.group;
    const std::uint64_t theirs = group == nullptr ? 0 : group->quota_bytes;
    if (ours && !ends_with_attach(ask, id) && theirs != ask.quota_bytes) {
      return make_error(Code::bad_argument, "quota_bytes = " + std::to_string(ask.quota_bytes) +
                                                ": other ranks of group '" + ask.group +
                                                "' have " + std::to_string(theirs));
    }
  }
  return {};
}

Result<void> QuotaTable::judge_room(const Family& family, const QuotaAsk& ask,
                                    std::uint32_t pages) const {
  const QuotaGroup* group = find(family.number, ask.group);
  if (group != nullptr && group->quota_bytes == ask.quota_bytes) {
    return {};  // it is reserved already
  }
  const std::uint64_t wanted =
      l2_pages_of_quota(family.descriptor, family.shards_on_node, pages);
  const std::uint64_t own = group == nullptr ? 0 : group->l2_pages;
  const std::uint64_t taken =
      family.pages_reserved - own + slack_pages(family) + leased_by_others(family, ask);
  const std::uint64_t left = family.pages_l2 - std::min(family.pages_l2, taken);
  if (wanted > left) {
    return make_error(Code::no_space,
                      "quota_bytes = " + std::to_string(ask.quota_bytes) + ": takes " +
                          std::to_string(wanted) + " of " + std::to_string(family.pages_l2) +
                          " pages in L2, other quotas, leases and operations in flight leave " +
                          std::to_string(left));
  }
  return {};
}

Result<void> QuotaTable::judge_tables(const Family& family, const QuotaAsk& ask,
                                      std::uint32_t pages) const {
  const std::uint64_t records = std::uint64_t{pages} * quota_owners(family.descriptor);
  const std::string field = "quota_bytes = " + std::to_string(ask.quota_bytes) + ": ";
  std::uint64_t beside = 0;
  std::uint32_t sessions = 1;
  for (const SessionId id : members_) {
    const bool stays = !ends_with_attach(ask, id);
    beside += stays ? core_.sessions.find(id)->quota.leases_max : 0;
    const EngineSession& at = *core_.sessions.find(id);
    sessions += stays && (!at.ended || at.switches) ? 1U : 0U;
  }
  if (beside + records > kQuotaLeasesMax || records > family.pages_max) {
    return make_error(Code::no_space, field + std::to_string(records) +
                                          " pages to lease, beside " + std::to_string(beside) +
                                          " of other ranks with quota: the daemon can count " +
                                          std::to_string(kQuotaLeasesMax));
  }
  const std::uint32_t sessions_max = core_.options.ops_max / kOpSlotsPerSession - 1;
  if (core_.options.ops_max < 2 * kOpSlotsPerSession || sessions > sessions_max) {
    return make_error(Code::no_space, field + std::to_string(core_.options.ops_max) +
                                          " operations in flight are the most, too few for " +
                                          std::to_string(sessions) + " ranks with quota");
  }
  const auto active = static_cast<std::uint32_t>(core_.ops.active().size());
  if (core_.options.ops_max - active < ops_reserved(&ask)) {
    return make_error(Code::busy, field + "too many operations are in flight now");
  }
  return {};
}

std::uint64_t QuotaTable::join(SessionId id, Family& family, const QuotaAsk& ask) {
  if (ask.quota_bytes == 0) {
    return 0;
  }
  const auto pages = quota_pages(family.descriptor, "quota_bytes", ask.quota_bytes);
  HC_CHECK(pages.has_value());
  const std::uint32_t owners = quota_owners(family.descriptor);
  QuotaGroup* group = find(family.number, ask.group);
  if (group == nullptr) {
    groups_.push_back(std::make_unique<QuotaGroup>());
    group = groups_.back().get();
    group->family = family.number;
    group->name = ask.group;
    group->leased.resize(owners);
  }
  // A session that is replaced may have had another quota; nobody else is in the group then.
  if (group->quota_bytes != ask.quota_bytes) {
    family.pages_reserved -= group->l2_pages;
    group->quota_bytes = ask.quota_bytes;
    group->pages = *pages;
    group->l2_pages = l2_pages_of_quota(family.descriptor, family.shards_on_node, *pages);
    family.pages_reserved += group->l2_pages;
  }
  EngineSession& session = *core_.sessions.find(id);
  session.quota.group = group;
  session.quota.leased.resize(owners);
  session.quota.asked.resize(owners);
  session.quota.leases_max = std::uint64_t{*pages} * owners;
  ++group->sessions;
  members_.push_back(id);
  leases_reserved_ += session.quota.leases_max;
  core_.leases.reserve_beside(static_cast<std::uint32_t>(leases_reserved_));
  return *pages * quota_page_bytes(family.descriptor);
}

void QuotaTable::leave(SessionId id) {
  SessionQuota& quota = core_.sessions.find(id)->quota;
  if (quota.group == nullptr) {
    return;
  }
  const auto is_zero = [](std::uint32_t count) { return count == 0; };
  HC_CHECK(quota.waiting == 0);
  HC_CHECK(std::all_of(quota.leased.begin(), quota.leased.end(), is_zero));
  leases_reserved_ -= quota.leases_max;
  members_.erase(std::find(members_.begin(), members_.end(), id));
  QuotaGroup* group = quota.group;
  quota = SessionQuota{};
  if (--group->sessions > 0) {
    return;
  }
  HC_CHECK(group->leases_of.empty());
  core_.spaces->family(group->family).pages_reserved -= group->l2_pages;
  groups_.erase(std::find_if(groups_.begin(), groups_.end(),
                             [&](const auto& other) { return other.get() == group; }));
}

void QuotaTable::note_lease(const EngineSession& session, bool opened) {
  if (session.quota.group == nullptr) {
    return;
  }
  HC_CHECK(opened || leases_open_ > 0);
  opened ? ++leases_open_ : --leases_open_;
}

void QuotaTable::lease(EngineSession& session, LeasedPage leased) {
  Page& page = core_.catalog->page(leased.page);
  SessionQuota& quota = session.quota;
  ++session.leased_pages;
  if (quota.group == nullptr) {
    Family& family = core_.family_of(leased.page);
    family.leased_without_quota += page.leases_without_quota++ == 0 ? 1U : 0U;
    return;
  }
  leased.owner = owner_in(*quota.group, leased.owner);
  ++pages_leased_;
  ++quota.leased[leased.owner];
  HC_CHECK(quota.leased[leased.owner] <= quota.group->pages);
  const bool first = ++quota.group->leases_of[page_key(leased)] == 1;
  quota.group->leased[leased.owner] += first ? 1U : 0U;
}

void QuotaTable::unlease(EngineSession& session, LeasedPage leased) {
  Page& page = core_.catalog->page(leased.page);
  SessionQuota& quota = session.quota;
  HC_CHECK(session.leased_pages > 0);
  --session.leased_pages;
  if (quota.group == nullptr) {
    HC_CHECK(page.leases_without_quota > 0);
    Family& family = core_.family_of(leased.page);
    family.leased_without_quota -= --page.leases_without_quota == 0 ? 1U : 0U;
    return;
  }
  leased.owner = owner_in(*quota.group, leased.owner);
  HC_CHECK(pages_leased_ > 0 && quota.leased[leased.owner] > 0);
  --pages_leased_;
  --quota.leased[leased.owner];
  const auto count = quota.group->leases_of.find(page_key(leased));
  HC_CHECK(count != quota.group->leases_of.end());
  if (--count->second == 0) {
    quota.group->leases_of.erase(count);
    quota.group->leased[leased.owner] -= HC_MUTANT(quota_count_kept) ? 0U : 1U;
  }
}

bool QuotaTable::within_quota(const EngineSession& session, const OpRequest& request) const {
  const SessionQuota& quota = session.quota;
  std::vector<std::uint64_t> wanted(quota.leased.size());
  for (const PageEntry& page : request.pages) {
    ++wanted[owner_in(*quota.group, page.owner)];
  }
  bool fits = session.leases + quota.leases_asked < quota.leases_max;
  for (std::size_t owner = 0; owner < wanted.size(); ++owner) {
    fits = fits && wanted[owner] + quota.leased[owner] + quota.asked[owner] <= quota.group->pages;
  }
  return fits;
}

bool QuotaTable::group_fits(const EngineSession& session, const OpRequest& request) const {
  const QuotaGroup& group = *session.quota.group;
  const bool creates = request.entry.verb == static_cast<std::uint8_t>(Verb::store);
  std::vector<std::uint64_t> wanted(group.leased.size());
  for (const PageEntry& entry : request.pages) {
    const std::uint16_t owner = owner_in(group, entry.owner);
    const PageId page = core_.catalog->find(session.space, entry.hash);
    const bool known = page != kNoPage && group.leases_of.contains(page_key({page, owner}));
    const bool leases = page != kNoPage || creates;
    wanted[owner] += leases && !known ? 1U : 0U;
  }
  for (std::size_t owner = 0; owner < wanted.size(); ++owner) {
    if (wanted[owner] > 0 && wanted[owner] + group.leased[owner] > group.pages) {
      return false;
    }
  }
  return true;
}

bool QuotaTable::leaves_reserved(const EngineSession& session, const OpRequest& request) const {
  const Family& family = core_.family_of(session.space);
  if (family.pages_reserved == 0 || HC_MUTANT(reservation_ignored)) {
    return true;
  }
  const bool creates = request.entry.verb == static_cast<std::uint8_t>(Verb::store);
  std::uint64_t wanted = 0;
  for (const PageEntry& entry : request.pages) {
    const PageId page = core_.catalog->find(session.space, entry.hash);
    const bool leased = page != kNoPage && core_.catalog->page(page).leases_without_quota > 0;
    wanted += (page != kNoPage || creates) && !leased ? 1U : 0U;
  }
  const std::uint64_t taken = wanted + family.leased_without_quota + family.with_ranks;
  return wanted == 0 || taken + family.pages_reserved + slack_pages(family) <= family.pages_l2;
}

// Sessions without quota share the records of the start; those of quotas lie beside them.
bool QuotaTable::has_lease_records(const EngineSession& session, std::uint32_t pages) const {
  if (session.quota.group != nullptr) {
    HC_CHECK(core_.leases.nodes_free() >= pages && core_.leases.leases_free() > 0);
    return true;
  }
  return session.leases < kLeasesPerSession &&
         core_.leases.nodes_used() - pages_leased_ + pages <= core_.options.lease_nodes_max &&
         core_.leases.leases_open() - leases_open_ < core_.options.leases_max;
}

bool QuotaTable::may_open_op(const EngineSession& session) const {
  return session.quota.group != nullptr || members_.empty() ||
         core_.options.ops_max - core_.ops.active().size() > ops_reserved(nullptr);
}

void QuotaTable::wait(EngineSession& session, const OpRequest& request) {
  ++session.quota.waiting;
  session.quota.leases_asked += request.pages.empty() ? 0U : 1U;
  for (const PageEntry& page : request.pages) {
    ++session.quota.asked[owner_in(*session.quota.group, page.owner)];
  }
}

void QuotaTable::stop_waiting(EngineSession& session, const OpRequest& request) {
  HC_CHECK(session.quota.waiting > 0);
  --session.quota.waiting;
  session.quota.leases_asked -= request.pages.empty() ? 0U : 1U;
  for (const PageEntry& page : request.pages) {
    std::uint32_t& asked = session.quota.asked[owner_in(*session.quota.group, page.owner)];
    HC_CHECK(asked > 0);
    --asked;
  }
}

void QuotaTable::stop_wanting() {
  items_wanted_ = false;
  for (std::uint16_t family = 0; family < core_.spaces->family_count(); ++family) {
    core_.spaces->family(FamilyNo{family}).room_wanted = false;
  }
}

}  // namespace hc
