// SPDX-License-Identifier: Apache-2.0
// client: one engine rank: its session of the moment, its regions and leases, and reattaching.
//
// Owner threads: any caller, one at a time under mutex_; one background thread owns the receiving
// side of the control socket and every attach. Invariants: the mutex is never held over a wait or
// over a call that may wait; session_ is set by the background thread alone, and stays set until
// every operation of it has its terminal completion; nothing of a session is used after that.
//
// How a wait ends: hicache_wait sleeps on the daemon's wake word in slices of kWaitSliceMs. The
// background thread, which sees the daemon's death on the socket, wakes that same word from this
// process. Only a wake between a waiter's last look and its sleep is lost, and costs one slice.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "client/fork_guard.h"
#include "client/gpu/device_exporter.h"
#include "client/gpu/rank_copier.h"
#include "client/handshake.h"
#include "client/hicache.h"
#include "client/lease_table.h"
#include "client/open_arguments.h"
#include "client/prefix_rule.h"
#include "client/region_table.h"
#include "client/session.h"
#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

inline constexpr std::uint32_t kWaitSliceMs = 100;
// The same where the kernel refuses the futex, so that only looking again tells of completions.
inline constexpr std::uint32_t kNoFutexSliceMs = 5;
// A daemon reports an operation late within one of its turns. After this much more, we do.
inline constexpr std::uint32_t kLateGraceMs = 200;
// How long a daemon whose socket has closed may take to exit before its memory operations are
// reported late, and before its silence is taken for what a closed socket promises anyway: that
// it touches no client memory any more. Without the end of the socket only its death says so.
inline constexpr std::uint32_t kExitLateMs = 100;
inline constexpr std::uint32_t kExitWaitMs = 5000;
inline constexpr std::uint32_t kBackoffMinMs = 50, kBackoffMaxMs = 2000;

class Client {
 public:
  static Result<std::unique_ptr<Client>> open(OpenPlan plan);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // timed_out: the daemon may still touch the memory of operations.
  Result<void> close(std::uint32_t timeout_ms);

  bool in_child() const { return fork_guard_.in_child(); }
  Result<void> state();
  std::uint64_t instances();
  // Of the space only the weight version ever changes.
  const OpenPlan& plan() const { return plan_; }
  // Whether operations can be submitted now, and how often all leases have ended so far: with a
  // session, with a space.
  struct Ground {
    bool is_attached = false;
    std::uint64_t lease_ends = 0;
  };
  Ground ground();

  Result<void> register_region(const hicache_region* region, std::uint32_t timeout_ms);
  Result<void> register_cuda_region(const hicache_cuda_region* region, std::uint32_t timeout_ms);
  Result<void> unregister_region(std::uint32_t region, std::uint32_t timeout_ms);

  struct Pages {
    const hicache_page* data;
    std::size_t count;
  };
  Result<void> exists_prefix(Pages pages, OwnedParts owned, hicache_prefix& out);

  // What a store's arguments have against them that is the same on all ranks.
  Result<void> judge_store(const hicache_op* op, Pages pages);
  // All of them answer the op id.
  Result<std::uint64_t> submit(Verb verb, const hicache_op* op, Pages pages);
  Result<std::uint64_t> release(const hicache_op* op, std::uint64_t lease);
  // Released as operation slots come free; nobody waits for it.
  void give_back(std::uint64_t lease);
  Result<std::uint64_t> flush(const hicache_op* op);
  Result<std::uint64_t> cancel(const hicache_op* op, std::uint64_t target);

  Result<std::size_t> poll(std::span<hicache_completion> out);
  Result<std::size_t> wait(std::span<hicache_completion> out, std::uint32_t timeout_ms);
  int event_fd();

  Result<hicache_view> lease_view(std::uint64_t lease, std::uint32_t page, std::uint32_t kind);
  bool view_intact(const hicache_view& view);

  Result<void> space_switch(std::string weight_version, std::uint32_t timeout_ms);
  Result<StatsReply> stats(std::uint32_t timeout_ms);

  // What the ranks of the group ask of each other through the daemon.
  struct JoinedBoard {
    UniqueFd fd;
    BoardReply board{};
  };
  // A place on the group's next board. It is watched on by a daemon that comes after this one.
  Result<JoinedBoard> join_board(std::uint32_t words, std::uint32_t timeout_ms);
  void forget_board();
  Result<void> post(std::uint32_t key, std::span<const std::uint8_t> value,
                    std::uint32_t timeout_ms);
  // Waits until somebody has posted.
  Result<std::vector<std::uint8_t>> get(std::uint32_t key, std::uint32_t timeout_ms);

 private:
  using Lock = std::unique_lock<std::mutex>;

  // A request on the control socket. It stays here until its answer comes, also when its caller
  // has left: the answer still has to be applied.
  struct ControlCall {
    std::uint64_t request_id = 0;
    std::function<Result<void>(ControlMessage&)> apply;  // on ok; an error breaks the session
    std::function<void()> undo;                          // on any other answer of the daemon
    bool done = false;
    Code code = Code::ok;
    std::string text;
  };
  using CallPtr = std::shared_ptr<ControlCall>;
  struct ControlRequest {
    MessageType type;
    std::vector<std::uint8_t> body;
    std::vector<int> fds{};
  };

  explicit Client(OpenPlan plan);
  Result<void> start();
  Result<void> await_open();

  // client.cpp
  bool attached() const { return session_ != nullptr && !session_->closed(); }
  Parting parting() const { return closing_ ? Parting::for_good : Parting::comes_back; }
  Error not_attached() const;
  Result<void> check_attached() const;
  Result<void> check_data(bool held_is_ok) const;
  void break_session(std::string why), announce();

  // client_ops.cpp
  Result<RequestEntry> judge_op(Verb verb, const hicache_op* op, Pages pages, PageRules& rules);
  PageRules rules_of(Verb verb, std::uint8_t kind_mask) const;
  Result<std::uint64_t> launch(Session::Submission submission);
  Result<std::uint64_t> launch_release(RequestEntry entry, const Lease& lease, bool asked);
  void give_back_orphans();
  std::size_t collect(std::span<hicache_completion> out);
  std::uint32_t wait_flags() const;
  bool sleep_until_news(Lock& lock, int slice_ms);

  // client_control.cpp
  Result<CallPtr> begin_call(Lock& lock, ControlRequest request, CallPtr call, Deadline deadline);
  Result<void> end_call(Lock& lock, const CallPtr& call, Deadline deadline);
  Result<void> announce_region(Lock& lock, KnownRegion region, Deadline deadline);

  // client_gpu.cpp
  Result<void> register_ipc(Lock& lock, const hicache_cuda_region& region, Deadline deadline);
  Result<void> register_rank(Lock& lock, const hicache_cuda_region& region, Deadline deadline,
                             const std::string& reason);
  void give_arenas();
  Result<void> place_operation(Session::Submission& submission, const hicache_op& op);
  void take_from_session(std::size_t max), refuse_prepared();
  bool start_rank_copies(const Session::Prepared& prepared);
  void rank_copied(std::uint64_t name, Code code);

  static ControlRequest unregister_request(std::uint32_t region);
  CallPtr unregister_call(std::uint32_t region);
  void unregister_unasked(std::uint32_t region);
  Result<void> check_region_number_is_free(std::uint32_t number);
  void fail_call(ControlCall& call, const Error& error);
  Result<void> apply_space_switch(ControlMessage& message);
  void handle(ControlMessage& message);

  // client_group.cpp
  void watch_board_again();

  // client_background.cpp
  enum class EndSeen { no, yes };  // whether the daemon has closed the socket
  enum class Sign { none, stop, daemon_dead, end_of_socket };
  void run();
  bool attempt(std::uint32_t& backoff_ms);
  EndSeen serve(Session& session);
  Deadline look_at_overdue(Session& session);
  void finish_session(EndSeen end), end_session(Session& session, EndSeen end);
  void await_daemon_exit(Session& session, EndSeen end);
  bool await_gpu(Session& session), await_rank_copies();
  Sign await_sign(Session& session, std::uint32_t timeout_ms, EndSeen end);

  // client_reattach.cpp
  bool may_attach(), publish(const Attached& attached, const AttachPlan& plan);
  AttachPlan next_plan();
  void take_over_leases(), leave_leases();
  bool note_failure(Error error), pause(std::uint32_t& backoff_ms);

  ForkGuard fork_guard_;
  OpenPlan plan_;     // its space follows hicache_space_switch
  UniqueFd stop_fd_;  // readable once the background thread has to end
  UniqueFd event_fd_;
  UniqueFd nudge_fd_;  // readable once the background thread has to look at its deadlines again
  std::thread background_;
  std::minstd_rand jitter_;  // background thread only, and so is
  std::optional<PreviousSession> previous_;  // set while its leases may go on

  std::mutex export_mutex_;  // held over calls of the driver; before mutex_
  std::mutex mutex_;
  std::condition_variable changed_;  // session, calls, regions, attempts, completions
  std::shared_ptr<Session> session_;
  std::uint32_t attachments_ = 0, first_attachment_ = 0;  // the first whose views still count
  std::uint64_t instances_ = 0, attempts_ = 0;
  Uuid last_instance_{};
  Error last_failure_{Code::disconnected, 0, "no daemon has answered yet"};
  bool final_ = false;  // last_failure_ is for good
  bool closing_ = false, stop_ = false;
  RegionTable regions_;
  std::shared_ptr<DeviceExporter> exporter_;  // with the first region of a GPU, and then for good
  std::unique_ptr<RankCopier> rank_copier_;   // with the first that we copy ourselves
  std::uint32_t rank_copies_ = 0;             // batches in it
  LeaseTable leases_;
  std::vector<std::uint64_t> orphans_;  // leases to be given back
  std::optional<JoinedBoard> board_;
  std::map<std::uint64_t, CallPtr> calls_;
  std::optional<std::string> switch_target_;  // set until the daemon has confirmed it
  CallPtr switch_call_;
  std::vector<hicache_completion> ready_;  // taken, not handed out: [ready_head_, end)
  std::size_t ready_head_ = 0;
  Deadline overdue_checked_{}, close_by_{};
  Deadline listening_until_{};  // when the background thread looks for late operations next
  std::uint32_t waiters_ = 0;
  bool event_wanted_ = false;
  PartSelector parts_;                      // never changed, so also read without the mutex
  std::unique_ptr<PrefixScan> spare_scan_;  // kept for its memory; nothing while it is in use
};

}  // namespace hc

// What the C interface names.
struct hicache_client {
  std::unique_ptr<hc::Client> client;
};
