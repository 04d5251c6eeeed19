// SPDX-License-Identifier: Apache-2.0
// controller: what a group of ranks decides about reloads, once per tick.
//
// Owner thread: the engine's scheduler. Pure: no I/O, no clock, no thread. README.md has the rules:
// inputs are rank-uniform, facts are local and only change what encode() says, decisions follow
// from inputs and reduced vectors alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "client/reload/decision_digest.h"
#include "client/reload/reload_table.h"
#include "client/reload/store_ledger.h"
#include "proto/page_hash.h"

namespace hc {

struct ControllerOptions {
  PageHashOptions hash;                  // page_tokens 0: page keys are opaque
  bool trailing_kinds = false;           // a shorter prefix may be unusable, a longer one not
  std::uint32_t ops_max = 32;            // reload_max_inflight, 1..64
  std::uint32_t op_pages_max = 512;      // of one operation
  std::uint32_t inflight_pages_max = 4096;
  std::uint32_t pages_min = 1;           // shorter reloads are not worth it
  std::uint32_t waiting_max = 1024;      // candidates beyond the 64 that are in the vector, too
  std::uint32_t stores_max = 4096;       // unsettled
  std::uint32_t ttl_ms = 10'000;         // of an operation
};

enum class Decline : std::uint8_t {
  none,
  empty,       // no page behind the anchor
  duplicate,   // this request waits already
  too_short,   // even all of it is shorter than pages_min
  anchor,      // not there, or the first page hangs there already
  quota,       // even all of the quota would not hold pages_min of it
  full,        // waiting_max
};

enum class Recompute : std::uint8_t {
  too_short,   // the agreed count is below pages_min: a miss, or dearer than recomputing somewhere
  unsteady,    // counts of trailing kinds did not agree within the rounds
  no_room,     // the quota can't be evicted to fit, or no record is free
  anchor,      // the anchor has moved
  failed,      // a read failed on some rank
  expired,     // a rank's deadline passed
  diverged,    // the ranks did not agree about what they had decided
};

constexpr std::size_t kDeclines = 7;
constexpr std::size_t kRecomputes = 7;

// What apply() decided, in order; equal on all ranks but for what is marked local.
struct ReloadDecisions {
  struct Start {  // submit this reload now
    ReloadOpId op{};
    Suffix suffix;
    RequestId request{};  // the one that asked first
  };
  struct Admit {  // match this request again: its pages are in the tree
    RequestId request{};
    std::uint32_t pages = 0;
  };
  struct Drop {
    RequestId request{};
    Recompute reason{};
  };
  struct Settled {
    std::uint64_t store = 0;
    bool durable = false;
  };
  std::vector<Admit> admits;
  std::vector<Drop> recomputes;
  std::vector<Start> starts;
  std::vector<Settled> stores;
  std::vector<ReloadOpId> cancels;           // local: still in flight here, and unwanted
  std::vector<LeaseHandle> releases;         // local: release now
  bool diverged = false;
  bool l2_dropped = false;                   // old mappings may be unmapped

  void clear() { *this = {}; }
};

struct ControllerCounters {
  std::uint64_t offers = 0, held = 0, piggybacked = 0, admitted = 0, pages_admitted = 0;
  std::uint64_t reduces = 0, divergences = 0, l2_drops = 0, late_landings = 0, unwanted = 0;
  std::array<std::uint64_t, kDeclines> declined{};
  std::array<std::uint64_t, kRecomputes> recomputed{};
};

class Controller {
 public:
  Controller(const ControllerOptions& options, AttachPoint& tree, PageQuota& quota);

  // --- inputs: in the same order on all ranks -------------------------------------------------
  // The request is held until apply() admits it or says recompute. Between encode and apply the
  // answer is `none`, and a decline that shows later is a recompute.
  Decline offer(RequestId request, Suffix suffix);
  // The request does not wait any more: aborted, timed out, preempted, or admitted and gone. No
  // decision speaks of it after this, also not of a vector that is being reduced.
  void release(RequestId request);
  // A store of pages path[first..] begins, with its lease kept. None: there is no room for it, the
  // engine stores without keeping the lease. Not between encode and apply.
  std::optional<std::uint64_t> begin_store(const PageRun& path, std::uint32_t first);
  // Once per scheduling pass, before encode. False: no reduce in this pass, on any rank.
  bool needs_tick();

  // --- facts: of this rank ----------------------------------------------------------------------
  // The candidates that the next encode speaks of: ask the index about the first `limit` pages.
  std::span<Candidate> candidates();
  // Usable here; 0 where it is dearer than recomputing.
  void set_count(CandidateId candidate, std::uint32_t usable);
  // The end of a reload on this rank. False: nobody wants it, release the lease.
  [[nodiscard]] bool reload_ended(ReloadOpId op, bool landed, LeaseHandle lease);
  [[nodiscard]] bool store_ended(std::uint64_t store, bool durable, LeaseHandle lease);
  // The daemon of this rank has gone, and every lease with it; reloads in flight end by themselves.
  void daemon_lost();
  // This rank is attached to a daemon that has none of its leases. Beyond what is agreed, so that
  // it is seen whatever the other ranks' daemons have been through.
  void daemon_came_anew() { instances_ = std::max(instances_, agreed_instances_) + 1; }

  // --- the tick ---------------------------------------------------------------------------------
  const AgreementVector& encode(std::uint64_t now_ms);
  void apply(const AgreementVector& reduced, ReloadDecisions& out);
  // The collective failed (a member died, a deadline passed): nobody knows what was agreed. All is
  // dropped as after a divergence; the engine forms the group anew, or goes on without reloads.
  void abandon(ReloadDecisions& out) { restart({epoch_ + 1, 0}, out); }
  // The same, to go on in an epoch beyond those of all ranks, with the instances that they have
  // been through at most.
  struct Footing {
    std::uint64_t epoch = 0;
    std::uint64_t instances = 0;
  };
  void restart(Footing footing, ReloadDecisions& out);

  bool is_reading(ReloadOpId op) const;
  bool is_open() const { return !candidates_.empty() || ops_open_ > 0; }
  std::size_t unsettled_stores() const { return stores_.size(); }
  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t instances() const { return instances_; }
  std::int64_t digest() const { return seen_digest().value(); }
  const ControllerCounters& counters() const { return counters_; }

 private:
  static constexpr int kEpochShift = 40;  // ids of an epoch are before those of the next
  struct OfferInput {
    RequestId request{};
    Suffix suffix;
  };
  using Input = std::variant<OfferInput, RequestId>;  // RequestId: a release

  Decline judge(RequestId request, const Suffix& suffix) const;
  bool waits(RequestId request) const;
  bool piggyback(RequestId request, const PageHash& first);
  Decline take_offer(RequestId request, Suffix suffix);
  std::vector<RequestId>* remove_waiter(RequestId request);
  void take_release(RequestId request);
  bool anchor_is_clean(const Suffix& suffix) const;
  std::uint32_t pages_limit(const Suffix& suffix) const;
  ReloadOp* find(ReloadOpId id);
  ReloadState state_of(const ReloadOp& op, std::uint64_t now_ms) const;
  DecisionDigest seen_digest() const;
  bool has_answered_all() const;

  void apply_instances(const AgreementVector& reduced, ReloadDecisions& out);
  void apply_stores(const AgreementVector& reduced, ReloadDecisions& out);
  void apply_states(const AgreementVector& reduced, ReloadDecisions& out);
  void apply_reading(ReloadOp& op, std::int64_t state, ReloadDecisions& out);
  void apply_counts(const AgreementVector& reduced, ReloadDecisions& out);
  bool settle_count(Candidate& candidate, std::int64_t count, ReloadDecisions& out);
  bool start(Candidate& candidate, std::uint32_t pages, ReloadDecisions& out);
  void apply_late_releases();
  void apply_inputs(ReloadDecisions& out);
  bool has_older(const ReloadOp& op) const;
  void admit(ReloadOp& op, ReloadDecisions& out);
  void recompute(std::vector<RequestId>& waiters, Recompute reason, ReloadDecisions& out);
  void drain(ReloadOp& op);
  void close(ReloadOp& op);
  void drop_all(Footing footing, ReloadDecisions& out);
  void settle_store(std::uint64_t sequence, StoreLedger::Store& store, bool durable,
                    ReloadDecisions& out);
  void take_local(ReloadDecisions& out);

  ControllerOptions options_;
  AttachPoint& tree_;
  PageQuota& quota_;
  std::vector<Candidate> candidates_;   // in order of their offers
  std::array<ReloadOp, kAgreedOpsMax> ops_;
  std::uint32_t ops_open_ = 0;
  std::uint32_t inflight_pages_ = 0;
  StoreLedger stores_;
  std::vector<Input> inputs_;           // that came between encode and apply
  DecisionDigest digest_;
  AgreementVector encoded_;
  bool is_encoded_ = false;
  std::uint32_t encoded_candidates_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t epoch_ = 1;
  std::uint64_t next_id_ = 1;           // of candidates and operations
  std::uint64_t passes_ = 0;
  std::uint64_t instances_ = 1;
  std::uint64_t agreed_instances_ = 1;
  std::vector<LeaseHandle> releases_;   // local
  std::vector<ReloadOpId> cancels_;     // local
  ControllerCounters counters_;
};

}  // namespace hc
