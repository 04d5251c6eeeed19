// SPDX-License-Identifier: Apache-2.0
// quota: room in L2 that is guaranteed to the ranks of a group, and who has leased what of it.
//
// Owner: the reactor thread.
//
// A quota is a number of pages, quota_bytes over one blob of every kind, for each owner
// (proto/budget.h). The first session of a (family, group) reserves it and the last one that is
// closed ends it, because a leased page is held whole: all kinds, all shards of the node.
// Invariants:
//   - the reservations of a family, its slack (for operations in flight), and the distinct pages
//     that sessions without quota have leased never pass its L2 pages together. So when a group
//     leases within its quota, the frames that it needs are unleased or come free
//   - a group counts each leased page once, by owner; a session counts its pages as often as its
//     leases name them, which is how the client's tree charges them (client/reload/page_quota.h)
//   - records of leases and of operations are reserved too: the lease table grows by a lease of one
//     page for each page of each session, and others leave kOpSlotsPerSession operations to each
// More than the session's own quota is its own fault: no_space. More than what its group has left,
// because another rank has not released yet, is waited for. Ranks that are further apart than the
// quota has room for may wait for each other until their deadlines.
// A session that ends with the attach of another is no reason to refuse that one; what it leases
// counts until it is gone. A switch to another space ends leases and keeps the reservation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/engine/family.h"
#include "daemon/engine/operation.h"
#include "daemon/engine/sessions.h"
#include "daemon/pool/lease_table.h"
#include "proto/result.h"

namespace hc {

struct Core;

struct QuotaGroup {
  FamilyNo family{};
  std::string name;
  std::uint64_t quota_bytes = 0;           // as its ranks ask for it
  std::uint32_t pages = 0;                 // of each owner
  std::uint64_t l2_pages = 0;              // reserved
  std::uint32_t sessions = 0;
  std::vector<std::uint32_t> leased;       // distinct pages, by owner
  std::unordered_map<std::uint64_t, std::uint32_t> leases_of;  // by page and owner

  std::uint64_t leased_pages() const {
    std::uint64_t total = 0;
    for (const std::uint32_t count : leased) {
      total += count;
    }
    return total;
  }
};

// What a session asks for when it attaches. `replaced` are sessions of its group that end with its
// attach: their number, quota and leases are no reason to refuse it.
struct QuotaAsk {
  std::string group{};
  std::uint64_t quota_bytes = 0;
  std::vector<SessionId> replaced{};
};

class QuotaTable {
 public:
  explicit QuotaTable(Core& core) : core_(core) {}

  // Whether the family can give it; changes nothing. bad_argument or no_space in one line.
  Result<void> judge(const Family& family, const QuotaAsk& ask) const;
  // After judge: reserves for the first of a group. Returns the bytes that are granted.
  std::uint64_t join(SessionId session, Family& family, const QuotaAsk& ask);
  void leave(SessionId session);  // it leases nothing and does nothing any more

  // Every lease, and every page of it, as they come and go.
  void note_lease(const EngineSession& session, bool opened);
  void lease(EngineSession& session, LeasedPage leased);
  void unlease(EngineSession& session, LeasedPage leased);

  // Whether the leases of the session have room for those of this operation, beside what waits.
  bool within_quota(const EngineSession& session, const OpRequest& request) const;
  // Whether its group has: ranks release at their own times.
  bool group_fits(const EngineSession& session, const OpRequest& request) const;
  // Of what is outside of quotas, leases and pages that ranks copy at their own pace: whether it
  // leaves to the others what is reserved to them.
  bool leaves_reserved(const EngineSession& session, const OpRequest& request) const;
  bool has_lease_records(const EngineSession& session, std::uint32_t pages) const;
  bool may_open_op(const EngineSession& session) const;

  void wait(EngineSession& session, const OpRequest& request);
  void stop_waiting(EngineSession& session, const OpRequest& request);

  // An operation of a quota waits for frames or records of the family, or for items: nobody else
  // takes any until it has them.
  bool is_wanted(const Family& family) const { return family.room_wanted || items_wanted_; }
  void want_items() { items_wanted_ = true; }
  void stop_wanting();

  static std::uint64_t slack_pages(const Family& family);
  const std::vector<std::unique_ptr<QuotaGroup>>& groups() const { return groups_; }

 private:
  QuotaGroup* find(FamilyNo family, const std::string& name) const;
  Result<void> judge_equal(const Family& family, const QuotaAsk& ask) const;
  // Records of operations that its members have not used yet.
  std::uint32_t ops_reserved(const QuotaAsk* ask) const;
  std::uint64_t leased_by_others(const Family& family, const QuotaAsk& ask) const;
  Result<void> judge_room(const Family& family, const QuotaAsk& ask, std::uint32_t pages) const;
  Result<void> judge_tables(const Family& family, const QuotaAsk& ask, std::uint32_t pages) const;

  Core& core_;
  std::vector<std::unique_ptr<QuotaGroup>> groups_;
  std::vector<SessionId> members_;
  std::uint64_t leases_reserved_ = 0;  // of the members, a page each
  std::uint64_t leases_open_ = 0;
  std::uint64_t pages_leased_ = 0;
  bool items_wanted_ = false;
};

}  // namespace hc
