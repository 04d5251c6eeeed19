// SPDX-License-Identifier: Apache-2.0
// clients: the sessions of the simulated engine ranks: what they ask, and the judge of every
// answer that they get.
//
//   law 1  what a load copied and what a lease shows is exactly the content of the page
//   law 4  every operation gets exactly one terminal answer, and one by its deadline
//   law 7  rows of client memory belong to an operation from its submission to its end
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/client_memory.h"
#include "tests/sim/world.h"

namespace hc::sim {

// Where a free_object must have wiped a header.
struct WipePlace {
  FileId file{};
  std::uint64_t offset_bytes = 0;
  Generation generation{};
  PageHash page{};
};

// A part that was on its way to the disk when an operation was submitted. Its barrier is its own.
struct Underway {
  PartRef ref{};
  std::uint64_t barrier = 0;
  PageHash page{};
};

struct SimOp {
  std::uint32_t serial = 0;
  std::uint32_t session = 0;             // number of the SimSession
  std::uint32_t version = 0;
  RequestEntry entry{};
  std::vector<std::uint32_t> pages;      // numbers in the universe
  std::vector<std::uint32_t> rows;       // of the region; store and load
  std::vector<bool> there;               // load, reload, pin: the page was there at submission
  std::vector<std::vector<Generation>> blobs;  // load, reload: on disk at submission, by page
  std::vector<WipePlace> wipes;          // free_object
  std::vector<std::uint64_t> gone_before; // free_object: what it found in the model
  std::uint64_t submitted = 0;           // of the model's sequence
  std::uint64_t barrier = 0;             // flush
  std::vector<Underway> underway;        // store: of its parts; flush: of everybody's
  std::size_t losses = 0;                // flush: those before it
  std::uint64_t unanswered = 0;          // transfers that kernel or device had not done by then
  bool meets_overdue = false;            // at submission such a transfer was still in flight
  Instant deadline{};
  Ack last_ack = Ack::none;
  bool in_submit = false;
  bool waited = false;                   // within a quota, for room
  bool late = false;
  bool fills_later = false;              // its client is still at work on its rows
  bool faulted = false;                  // a copy on its memory has met a fault
  bool cancelled = false;                // by a cancel, or with its session
  bool memory_back = false;              // its rows are the client's again
  bool lease_known = false;
  Verb verb() const { return static_cast<Verb>(entry.verb); }
};

struct HeldFrame {
  std::uint32_t page = 0;
  std::uint32_t part = 0;
  FrameRef ref{};
};

struct SimLease {
  std::uint64_t id = 0;
  std::uint32_t version = 0;
  std::vector<HeldFrame> frames;
};

// Whose memory is that of a GPU: the daemon copies, or the rank.
enum class GpuUse : std::uint8_t { none, ipc, rank };

struct SimSession {
  enum class State : std::uint8_t { closed, open, closing, switching };
  State state = State::closed;
  SessionId id{};
  std::uint32_t version = 0;
  std::uint32_t next_version = 0;        // switching
  std::uint16_t shard = 0;
  Instant quiet_by{};                    // closing, switching
  std::uint64_t stores = 0;
  std::size_t losses_told = 0;           // of the world's, by an earlier flush
  std::uint64_t barrier_told = 0;        // as are all of parts up to this one
  std::unique_ptr<ClientMemory> memory;
  std::array<std::uint32_t, kOpSlotsPerSession> op_of_slot{};  // serial; 0: free
  std::array<std::uint32_t, kOpSlotsPerSession> uses{};
  std::vector<SimLease> leases;
  std::uint32_t ops = 0;
  GpuUse gpu = GpuUse::none;
  bool dead = false;                     // closing, by the death of its process
};

inline constexpr std::uint32_t kSimSessions = 6;
// Those behind them belong to quota_ranks.
inline constexpr std::uint32_t kAllSessions = kSimSessions + 4;

class RankSide;

class Clients final : public CompletionSink {
 public:
  explicit Clients(World& world);
  ~Clients() override;

  // The doors. What an operation is about has been drawn by the driver.
  bool attach(std::uint32_t number, std::uint32_t version, std::uint16_t shard,
              const QuotaAsk& quota = {});
  void begin_close(std::uint32_t number);
  // The session of one number breaks, and its client attaches again as the other. clients_reattach
  bool reattach(std::uint32_t from, std::uint32_t to, Prng& prng);
  void begin_switch(std::uint32_t number, std::uint32_t version);
  void turn();                           // closing and switching sessions go on
  void daemon_died();

  struct Draft {
    Verb verb = Verb::none;
    std::uint8_t flags = 0;
    Ack ack = Ack::none;
    std::uint8_t kind_mask = 0;
    std::uint32_t deadline_ms = 1000;
    std::vector<std::uint32_t> pages;
    bool metadata = false;
    std::uint8_t hint = 0;
    std::uint64_t lease = 0;             // release
    std::uint32_t target = 0;            // cancel: serial of the operation, 0: none
  };
  // False: the client has no free slot or row for it now.
  bool submit(std::uint32_t number, const Draft& draft);

  void complete(SessionId session, const CompletionEntry& entry,
                std::span<const FrameRef> frames) override;

  void check_deadlines(Instant turned);  // after a turn at this time
  // Reads a lease's frames as a client would.
  void check_lease(const SimLease& lease);
  void scribble_late(std::uint32_t number);  // a client goes on with memory of a late store

  SimSession& session(std::uint32_t number) { return sessions_[number]; }
  const std::map<std::uint32_t, SimOp>& ops() const { return ops_; }
  std::uint32_t open_ops() const { return static_cast<std::uint32_t>(ops_.size()); }
  std::uint32_t next_serial() const { return next_serial_; }
  using OnEnd = std::function<void(const SimOp&, const CompletionEntry&)>;
  void set_on_quota_end(OnEnd on_end) { on_quota_end_ = std::move(on_end); }
  void set_memory_bound(std::int64_t bound_ns) { memory_bound_ns_ = bound_ns; }

 private:
  using Parts = std::vector<std::uint32_t>;

  Parts parts_of_page(const SimSession& session, const SimOp& op, std::uint32_t index) const;
  static bool is_needed(const KindSpec& kind, std::uint32_t index, std::size_t pages);
  bool page_is_there(const SimSession& session, const SimOp& op, std::uint32_t index,
                     bool in_memory);
  std::vector<Generation> blobs_of(const SimSession& session, const SimOp& op,
                                   std::uint32_t index);
  void prepare_rows(SimSession& session, SimOp& op);
  void fill_rows(SimSession& session, const SimOp& op);
  void finish_work(const CopyJob& await);
  OpRequest make_request(const SimOp& op, bool metadata) const;
  void before_submit(SimSession& session, SimOp& op);
  void after_submit(std::uint32_t serial);
  void note_wipes(const SimSession& session, SimOp& op);
  void give_memory_back(SimSession& session, SimOp& op);
  void end_op(SimSession& session, SimOp& op, const CompletionEntry& entry);
  bool were_there(const SimSession& session, const SimOp& op);
  bool waits_for_room(const SimSession& session, const SimOp& op) const;
  void mark_cancelled(std::uint32_t number);

  // judge.cpp
  void judge_progress(SimSession& session, SimOp& op, const CompletionEntry& entry);
  void judge_end(SimSession& session, SimOp& op, const CompletionEntry& entry);
  void judge_load(SimSession& session, SimOp& op, const CompletionEntry& entry);
  void judge_lease_verb(SimSession& session, SimOp& op, const CompletionEntry& entry);
  void judge_free(SimOp& op, Code code);
  void judge_flush(SimSession& session, const SimOp& op, Code code);
  void judge_ack(const SimOp& op, Ack ack);
  void note_underway(SimOp& op, bool all);
  void judge_miss(SimSession& session, const SimOp& op, std::uint32_t index);
  void judge_touches(SimSession& session, const SimOp& op);
  void expect_hit(const SimOp& op, std::uint32_t index);
  void take_lease(SimSession& session, SimOp& op, const CompletionEntry& entry,
                  std::span<const FrameRef> frames);
  SimOp* op_of_memory(const CopyRun& run);
  bool may_touch(const CopyRun& run, bool write);
  void judge_word(const SimSession& session, const SimOp& op);
  void judge_store(SimSession& session, const SimOp& op, const CompletionEntry& entry);

  void prepare_gpu(SimSession& session, std::uint32_t number);

  World& world_;
  std::unique_ptr<RankSide> rank_side_;
  std::array<SimSession, kAllSessions> sessions_;
  std::map<std::uint32_t, SimOp> ops_;   // open ones, by serial
  std::uint32_t next_serial_ = 1;
  OnEnd on_quota_end_;
  std::int64_t memory_bound_ns_ = 0;     // after its deadline an operation ends within this
};

}  // namespace hc::sim
