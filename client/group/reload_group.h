// SPDX-License-Identifier: Apache-2.0
// reload_group: one rank's part in its group: the controller, the tree and the quota above, the
// rank's client and the agreement below.
//
// Owner thread: the engine's scheduler. Invariants: the controller is asked only while the ranks
// have met (is_met); every operation that is submitted here stands in ops_ until its terminal
// completion; a lease is in the tree, in the controller, or on its way back to the daemon.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "client/agree/agreement.h"
#include "client/agree/nccl_library.h"
#include "client/client.h"
#include "client/group/engine_tree.h"
#include "client/group/group_plan.h"
#include "client/reload/controller.h"
#include "client/reload/prefix_tree.h"
#include "shm/agreement_board.h"

namespace hc {

struct ReloadGroupStats {
  std::uint64_t ticks = 0;
  std::uint64_t reduces = 0;
  std::uint64_t joins = 0;
  std::uint64_t bytes_reloaded = 0;
  std::uint64_t stores_in_flight = 0;
};

class ReloadGroup {
 public:
  ReloadGroup(Client& client, GroupPlan plan);
  ~ReloadGroup();
  ReloadGroup(const ReloadGroup&) = delete;
  ReloadGroup& operator=(const ReloadGroup&) = delete;

  // Meets the other ranks. True: what is in L1 has been kept.
  Result<bool> join(std::uint32_t timeout_ms);
  // For the next meeting, of ranks on several nodes.
  void set_nccl_id(std::span<const std::uint8_t, kNcclUniqueIdBytes> id) {
    std::copy(id.begin(), id.end(), plan_.nccl_id.emplace().begin());
  }
  bool is_met() const { return agreement_ != nullptr; }
  AgreementKind agreement() const { return kind_; }

  // Null with a tree of the engine's own.
  PrefixTree* tree() { return engine_tree_ ? nullptr : &tree_; }
  AttachPoint& attach_point() {
    return engine_tree_ ? static_cast<AttachPoint&>(*engine_tree_) : tree_;
  }
  // False: the engine's tree has not got it.
  bool end_lease(LeaseHandle lease);
  std::uint32_t grant_count() const {
    return engine_tree_ ? engine_tree_->grant_count() : tree_.grant_count();
  }
  const PageQuota& quota() const { return quota_; }
  const ControllerCounters& counters() const { return controller_.counters(); }
  const ReloadGroupStats& stats() const { return stats_; }

  Decline offer(RequestId request, Suffix suffix) {
    return controller_.offer(request, std::move(suffix));
  }
  void withdraw(RequestId request);
  // 0: there was no room for its lease; an ordinary store was submitted. bad_argument: nothing was
  // done.
  Result<std::uint64_t> store(const hicache_op& op, std::span<const hicache_page> pages,
                              const PageRun& path, std::size_t first);
  // False: the completion is not of this group.
  bool take(const hicache_completion& completion);
  // ok, or why the ranks are apart now.
  Code tick(bool& reduced);
  const ReloadDecisions& decisions() const { return decisions_; }
  // The engine has emptied its caches. What becomes of what was open, the next tick says.
  void clear();

 private:
  enum class Kind : std::uint8_t { reload, store, release, cancel };
  // A store for which no operation slot was free. Its pages' bytes are copied, its memory is not.
  struct WaitingStore {
    hicache_op op{};
    std::uint64_t number = 0;
    std::vector<hicache_page> pages;  // that point into `bytes`
    std::vector<std::uint8_t> bytes;  // keys and metadata
  };
  struct Submitted {
    Kind kind = Kind::release;
    std::uint64_t id = 0;          // of the reload or the store
    std::uint64_t lease_ends = 0;  // of the client, when it was submitted
  };

  // reload_group_join.cpp
  Result<std::unique_ptr<Agreement>> meet(Deadline deadline);
  Result<std::unique_ptr<Agreement>> meet_by_nccl(Deadline deadline);
  Result<AgreementBoard> next_board(Deadline deadline, std::uint64_t& number);
  Result<NcclUniqueId> meeting_id(const NcclLibrary& library, std::uint64_t number,
                                  Deadline deadline);
  Code compare(Agreement& agreement, std::uint32_t timeout_ms, bool& is_equal,
               Controller::Footing& footing);

  // reload_group_ops.cpp
  void carry_out();
  void submit_waiting();
  bool submit_releases();  // false: some have to wait
  bool submit_stores();    // the same
  void hold_store(const hicache_op& op, std::uint64_t number, std::span<const hicache_page> pages);
  bool submit_store(const hicache_op& op, std::uint64_t number,
                    std::span<const hicache_page> pages);
  bool submit_start(const ReloadDecisions::Start& start);
  bool submit_release(LeaseHandle lease);
  bool submit_cancel(ReloadOpId op);
  void end_reload(const Submitted& at, const hicache_completion& completion);
  void end_store(const Submitted& at, const hicache_completion& completion);
  bool has_lease(const Submitted& at, const hicache_completion& completion);
  bool note(Kind kind, std::uint64_t id, const Result<std::uint64_t>& op_id);

  void keep_for_next_tick();
  void tell_untold();
  void clear_tree();
  void note_ground();
  void answer_candidates();
  hicache_op internal_op() const;
  std::uint64_t now_ms() const;

  Client& client_;
  GroupPlan plan_;
  PageQuota quota_;
  PrefixTree tree_;
  std::optional<EngineTree> engine_tree_;
  Controller controller_;
  std::unique_ptr<Agreement> agreement_;
  AgreementKind kind_;
  Client::Ground ground_;
  ReloadDecisions decisions_;
  ReloadDecisions untold_;  // between two ticks: by clear and join
  ReloadGroupStats stats_;
  std::unordered_map<std::uint64_t, Submitted> ops_;           // by op id
  std::unordered_map<std::uint64_t, std::uint64_t> reloads_;   // op id of a reload in flight
  std::deque<ReloadDecisions::Start> starts_waiting_;          // for a free operation slot
  std::deque<LeaseHandle> releases_waiting_;
  std::deque<WaitingStore> stores_waiting_;
  std::uint32_t releases_in_flight_ = 0;
  std::vector<hicache_page> pages_;                            // spare memory of calls
};

}  // namespace hc
