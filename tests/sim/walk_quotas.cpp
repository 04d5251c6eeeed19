// SPDX-License-Identifier: Apache-2.0
// walk_quotas: what quotas count is what the leases say, and what is reserved is nobody else's.
#include <algorithm>
#include <map>
#include <set>

#include "tests/sim/watch.h"

namespace hc::sim {

void Watch::walk_quotas(bool at_rest) {
  Core& core = world_.core();
  using Pages = std::set<std::pair<std::uint32_t, std::uint16_t>>;  // page and owner
  std::map<const QuotaGroup*, Pages> leased;
  std::map<std::uint16_t, std::set<std::uint32_t>> without;  // by family
  std::map<const QuotaGroup*, std::uint32_t> members;
  for (const SessionId id : core.sessions.all()) {
    const EngineSession& session = *core.sessions.find(id);
    const QuotaGroup* group = session.quota.group;
    std::vector<std::uint32_t> own(session.quota.leased.size());
    members[group] += 1;
    for (const LeaseId lease : core.leases.leases_of(id)) {
      for (const LeasedPage& at : core.leases.owned_pages(lease)) {
        if (group == nullptr) {
          without[core.family_of(id).number.value].insert(at.page.value);
          continue;
        }
        const std::uint16_t owner = own.size() == 1 ? std::uint16_t{0} : at.owner;
        ++own[owner];
        leased[group].insert({at.page.value, owner});
      }
    }
    world_.laws.expect(own == session.quota.leased, 5,
                       "the count of a session is not its leases");
    world_.laws.expect(session.quota.waiting == 0 || !session.ended, 5,
                       "an ended session waits for room");
  }
  std::map<std::uint16_t, std::uint64_t> reserved;
  for (const auto& group : core.quotas.groups()) {
    reserved[group->family.value] += group->l2_pages;
    world_.laws.expect(group->sessions > 0 && group->sessions == members[group.get()], 5,
                       "a quota of nobody");
    world_.laws.expect(group->leased_pages() == leased[group.get()].size() &&
                           group->leases_of.size() == leased[group.get()].size(),
                       5, "the count of a quota is not its leases");
  }
  for (std::uint16_t number = 0; number < core.spaces->family_count(); ++number) {
    const Family& family = core.spaces->family(FamilyNo{number});
    world_.laws.expect(family.pages_reserved == reserved[number], 5,
                       "what is reserved is not what the quotas say");
    world_.laws.expect(family.leased_without_quota == without[number].size(), 5,
                       "the count of leases without quota is wrong");
    world_.laws.expect(family.pages_reserved == 0 ||
                           family.pages_reserved + QuotaTable::slack_pages(family) +
                                   family.leased_without_quota <=
                               family.pages_l2,
                       3, "pages are leased that are reserved for others");
    world_.laws.expect(!at_rest || family.pages_reserved == 0, 5, "a quota at rest");
  }
}

}  // namespace hc::sim
