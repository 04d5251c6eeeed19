// SPDX-License-Identifier: Apache-2.0
// engine: the door to everything the daemon decides about pages. No I/O, no clock of its own: it
// emits requests to the seams and takes their completions.
//
// Owner: the reactor thread; turn() is called once per turn of its loop, with the time frozen.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/rebuild.h"
#include "daemon/engine/recovery.h"
#include "daemon/engine/verbs.h"
#include "proto/thread_roles.h"

namespace hc {

enum class EngineState : std::uint8_t { closed, holding, loading, serving };
enum class ColdStartMode : std::uint8_t { clear, load };

// Where an operator's order stands.
enum class OrderState : std::uint8_t { idle, running, done };

// Why a daemon that does not serve yet refuses: it loads, or it holds its cold start.
Error not_serving(EngineState state);

class Engine {
 public:
  Engine(Disk& disk, Index& index, Copier& copier, CompletionSink& sink,
         const EngineOptions& options);
  ~Engine();

  // Opens the superblock (created with `new_uuid` when there is none) and takes the volume's lock.
  // Blocking. Afterwards the engine is holding.
  Result<void> open(const Uuid& new_uuid) HC_REACTOR;
  // Leaves hold. clear is done on return; load goes on in turn() until the state is serving. After
  // an error the engine holds as before, and the operator may say load or clear again.
  Result<void> cold_start(ColdStartMode mode) HC_REACTOR;

  // The loop has read the clock: requests submitted from here on are accepted at this time.
  void begin_turn(Instant now) HC_REACTOR { core_->now = now; }
  // Goes on until nothing can be done without a completion, a request or the time.
  void turn(Instant now) HC_REACTOR;
  // The next moment at which turn() has something to do although nothing completes.
  Instant next_deadline() const HC_REACTOR;

  // Sessions. attach binds or joins the family of the space and opens the shard's slabs.
  struct Attachment {
    SessionId session{};
    SpaceNo space{};
    std::uint64_t quota_bytes = 0;  // whole pages of what was asked for
  };
  struct AttachSpec {
    SpaceDescriptor descriptor;
    std::uint16_t shards_on_node = 0;
    std::uint16_t shard = 0;
    QuotaAsk quota{};
  };
  Result<Attachment> attach(const AttachSpec& spec) HC_REACTOR;
  // Cancels what runs; its completions still come. New operations are answered cancelled.
  void end_service(SessionId session) HC_REACTOR;
  bool is_quiet(SessionId session) HC_REACTOR;        // no operation of the session is open
  std::size_t release_leases(SessionId session) HC_REACTOR;
  void close_session(SessionId session) HC_REACTOR;   // quiet, no lease
  // These leases of a session without service are from now on those of another one of its client,
  // if that is of the same space, shard and quota: all of them, else none, and false.
  bool hand_over(SessionId from, SessionId to, std::span<const LeaseId> leases) HC_REACTOR {
    return verbs_->hand_over(from, to, leases);
  }
  // Ends service until switch_space; what is reserved for the session stays reserved, and its
  // releases are served.
  void begin_switch(SessionId session) HC_REACTOR;
  // The switch was refused: it goes on where it was.
  void stay(SessionId session) HC_REACTOR;
  // The session goes on in the space with this weight version; its leases end. Needs a quiet
  // session. After an error it is where it was, leases included, and still ended.
  Result<SpaceNo> switch_space(SessionId session, const std::string& weight_version) HC_REACTOR;
  void submit(SessionId session, OpRequest request) HC_REACTOR {
    verbs_->submit(session, std::move(request));
  }

  // Of ranks that copy themselves. Whether the operation of this slot and use waits for its rank.
  bool awaits_rank(SessionId session, const RequestEntry& entry) HC_REACTOR;
  // It does, and the rank says how its copies have ended.
  void rank_copied(SessionId session, const RequestEntry& entry) HC_REACTOR;
  bool is_with_rank(SessionId session) HC_REACTOR { return works_->ranks.is_with_rank(session); }
  // The rank touches no frame any more.
  void give_up_rank(SessionId session) HC_REACTOR;

  // Operator's orders, one at a time. Errors: busy, not_found, not_ready. A clear of the store
  // takes over a clear of a space that is running; both are done when it is. Pages are unreachable
  // on return; an order that ends with an error may not have made that last over a restart.
  Result<std::uint64_t> start_clear() HC_REACTOR;
  Result<std::uint64_t> start_clear_space(SpaceNo space) HC_REACTOR;
  OrderState order_state() const HC_REACTOR { return order_; }
  // How the order ended; for one that is done.
  const Result<void>& order_result() const HC_REACTOR { return order_result_; }
  void finish_order() HC_REACTOR { order_ = OrderState::idle; }
  // A clear of the store whose order has failed goes on when it can; until then nothing attaches.
  bool clearing_store() const HC_REACTOR { return clearing_store_; }
  // Everything stored before this call is durable or lost once barrier_reached(barrier); then
  // barrier_result says, once, whether all of it is durable: else io_error or no_space.
  std::uint64_t barrier_now() HC_REACTOR;
  bool barrier_reached(std::uint64_t barrier) HC_REACTOR;
  Result<void> barrier_result(std::uint64_t barrier) HC_REACTOR;
  // Stop: commits what is written. True when nothing is in flight and nothing waits.
  bool drained() HC_REACTOR;

  EngineState state() const HC_REACTOR { return state_; }
  Core& core() HC_REACTOR { return *core_; }
  const Core& core() const HC_REACTOR { return *core_; }
  PageKeeper& pages() HC_REACTOR { return works_->pages; }
  StepMover& steps() HC_REACTOR { return works_->steps; }
  const LoadProgress& load_progress() const HC_REACTOR { return load_progress_; }
  bool scanning_behind() const HC_REACTOR { return scan_behind_ != nullptr; }  // of a lazy load
  // Slots are read for the index.
  bool rebuilding() const HC_REACTOR { return rebuild_ != nullptr; }
  StatsReply stats() HC_REACTOR;
  // Nothing becomes durable now: commits or the superblock fail, or the index is dead, which a
  // clear repairs.
  bool index_failed() const HC_REACTOR { return works_ != nullptr && works_->commit.is_failing(); }
  // Payload bytes that only memory has because the spill policy holds them back.
  std::uint64_t bytes_held_back() const {
    return works_ == nullptr ? 0 : works_->admission.bytes_held_back();
  }
  // Slots that are set aside now because the device failed on them.
  std::uint64_t slots_quarantined() const HC_REACTOR;

 private:
  void route(const IoEvent& event) HC_REACTOR;
  void turn_superblock() HC_REACTOR;
  void count_io() HC_REACTOR;
  void on_superblock(const IoEvent& event) HC_REACTOR;
  void watch_arenas();
  void turn_loading() HC_REACTOR;
  void turn_scan_behind() HC_REACTOR;
  void turn_rebuild() HC_REACTOR;
  bool scans_idle() const HC_REACTOR;
  void on_scan(const IoEvent& event) HC_REACTOR;
  void turn_works() HC_REACTOR;
  void turn_clear() HC_REACTOR;
  void turn_clear_store() HC_REACTOR;
  bool clear_is_durable() HC_REACTOR;
  void empty_store(const Result<void>& index_reset) HC_REACTOR;
  void drop_unused_spaces() HC_REACTOR;
  bool space_is_used(SpaceNo space) HC_REACTOR;
  void end_order(Result<void> result) HC_REACTOR;
  Result<void> start_empty() HC_REACTOR;
  Result<void> start_load() HC_REACTOR;
  Result<void> start_recovery(const std::string& damage) HC_REACTOR;
  Result<void> reset_damaged_index(const std::string& damage) HC_REACTOR;
  IndexIdentity identity() const;
  void drop_start() HC_REACTOR;
  void abandon_start() HC_REACTOR;
  void build_works() HC_REACTOR;
  void begin_serving() HC_REACTOR;
  std::uint64_t frames_leased() const HC_REACTOR;

  Disk& disk_;
  std::unique_ptr<IoQueue> io_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<SuperblockFile> superblock_;
  std::unique_ptr<NotesFile> notes_;
  std::unique_ptr<SlabSet> slabs_;
  std::unique_ptr<SpaceSet> spaces_;
  std::unique_ptr<Works> works_;
  std::unique_ptr<Verbs> verbs_;
  std::unique_ptr<Recovery> recovery_;
  std::unique_ptr<ScanBehind> scan_behind_;
  std::unique_ptr<Rebuild> rebuild_;
  std::uint64_t scanned_before_ = 0;      // by the recovery, before the scan behind it
  std::uint64_t dropped_before_ = 0;
  LoadProgress load_progress_;
  std::vector<IoEvent> events_;
  EngineState state_ = EngineState::closed;
  OrderState order_ = OrderState::idle;
  Result<void> order_result_;
  bool clearing_store_ = false;
  SpaceNo clearing_space_{};              // of a running order, unless clearing_store_
  std::uint64_t order_pages_ = 0;         // clear of a space: pages to be freed
  std::uint64_t order_freed_at_start_ = 0;
  std::uint64_t order_sequence_ = 0;      // superblock sequence that must be durable
  std::uint32_t order_failures_ = 0;      // failed superblock writes when it began
  std::map<std::uint64_t, std::uint64_t> barriers_;  // open ones of the operator: losses told
  std::uint64_t losses_told_ = 0;         // to the operator
  bool wants_turn_ = false;               // something was changed between two turns
  bool stopping_ = false;                 // nothing new is begun
};

}  // namespace hc
