// SPDX-License-Identifier: Apache-2.0
// engine: the door to everything the daemon decides about pages. No I/O, no clock of its own: it
// emits requests to the seams and takes their completions.
//
// Owner: the reactor thread; turn() is called once per turn of its loop, with the time frozen.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/recovery.h"
#include "daemon/engine/verbs.h"

namespace hc {

enum class EngineState : std::uint8_t { closed, holding, loading, serving };
enum class ColdStartMode : std::uint8_t { clear, load };

// Where an operator's order stands.
enum class OrderState : std::uint8_t { idle, running, done };

class Engine {
 public:
  Engine(Disk& disk, Index& index, Copier& copier, CompletionSink& sink,
         const EngineOptions& options);
  ~Engine();

  // Opens the superblock (created with `new_uuid` when there is none) and takes the volume's lock.
  // Blocking. Afterwards the engine is holding.
  Result<void> open(const Uuid& new_uuid);
  // Leaves hold. clear is done on return; load goes on in turn() until the state is serving.
  Result<void> cold_start(ColdStartMode mode);

  // The loop has read the clock: requests submitted from here on are accepted at this time.
  void begin_turn(Instant now) { core_->now = now; }
  // Goes on until nothing can be done without a completion, a request or the time.
  void turn(Instant now);
  // The next moment at which turn() has something to do although nothing completes.
  Instant next_deadline() const;

  // Sessions. attach binds or joins the family of the space and opens the shard's slabs.
  struct Attachment {
    SessionId session{};
    SpaceNo space{};
  };
  struct AttachSpec {
    SpaceDescriptor descriptor;
    std::uint16_t shards_on_node = 0;
    std::uint16_t shard = 0;
  };
  Result<Attachment> attach(const AttachSpec& spec);
  // Cancels what runs; its completions still come. New operations are answered cancelled.
  void end_service(SessionId session);
  bool is_quiet(SessionId session);        // no operation of the session is open
  std::size_t release_leases(SessionId session);
  void close_session(SessionId session);   // quiet, no lease
  // The session goes on in the space with this weight version. Quiet, leases released.
  Result<SpaceNo> switch_space(SessionId session, const std::string& weight_version);
  void submit(SessionId session, OpRequest request) { verbs_->submit(session, std::move(request)); }

  // Operator's orders, one at a time. Errors: busy, not_found, not_ready.
  Result<std::uint64_t> start_clear();
  Result<std::uint64_t> start_clear_space(SpaceNo space);
  OrderState order_state() const { return order_; }
  void finish_order() { order_ = OrderState::idle; }
  // Everything stored before this call is durable once barrier_reached(barrier).
  std::uint64_t barrier_now();
  bool barrier_reached(std::uint64_t barrier);
  // Stop: commits what is written. True when nothing is in flight and nothing waits.
  bool drained();

  EngineState state() const { return state_; }
  Core& core() { return *core_; }
  const Core& core() const { return *core_; }
  PageKeeper& pages() { return works_->pages; }
  const LoadProgress& load_progress() const { return load_progress_; }
  StatsReply stats();

 private:
  void route(const IoEvent& event);
  void turn_superblock();
  void turn_loading();
  void turn_works();
  void turn_clear();
  void begin_serving();

  Disk& disk_;
  std::unique_ptr<IoQueue> io_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<SuperblockFile> superblock_;
  std::unique_ptr<SlabSet> slabs_;
  std::unique_ptr<SpaceSet> spaces_;
  std::unique_ptr<Works> works_;
  std::unique_ptr<Verbs> verbs_;
  std::unique_ptr<Recovery> recovery_;
  LoadProgress load_progress_;
  std::vector<IoEvent> events_;
  EngineState state_ = EngineState::closed;
  OrderState order_ = OrderState::idle;
  bool clearing_store_ = false;
  std::uint64_t order_pages_ = 0;         // clear of a space: pages to be freed
  std::uint64_t order_freed_at_start_ = 0;
  std::uint64_t order_sequence_ = 0;      // superblock sequence that must be durable
  bool wants_turn_ = false;               // something was changed between two turns
};

}  // namespace hc
