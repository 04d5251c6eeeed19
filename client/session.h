// SPDX-License-Identifier: Apache-2.0
// session: one attachment to one daemon: its shared files, rings, operation slots and doorbells.
//
// Owner thread: any, under the client's mutex; only the connection's receiving side, the wake word
// and the daemon's pidfd are used by one thread each without it. Invariants: one producer and one
// consumer, because the mutex admits one thread; an operation slot is reused only after its
// terminal completion was taken and its result area was copied.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/arena_view.h"
#include "client/connection.h"
#include "client/hicache.h"
#include "client/lease_table.h"
#include "client/op_arguments.h"
#include "client/op_table.h"
#include "proto/handshake.h"
#include "shm/generations.h"
#include "shm/region.h"
#include "shm/ring_consumer.h"
#include "shm/ring_producer.h"
#include "shm/status_table_reader.h"
#include "shm/unique_fd.h"

namespace hc {

// What a handshake has brought.
struct SessionParts {
  Connection connection;
  AttachReply reply;
  Region client_file;
  Region server_file;
  UniqueFd doorbell;
  UniqueFd daemon_pidfd;
  // Shared with lookups that run without the client's mutex; a space switch replaces it.
  std::shared_ptr<const StatusTableReader> status_table;
  GenerationsReader generations;
  std::shared_ptr<ArenaView> arenas;
  std::uint32_t attachment = 0;
  std::uint32_t kind_count = 0;
};

// What the daemon does with the leases of a session that this side ends.
enum class Parting : std::uint8_t { for_good, comes_back };

class Session {
 public:
  explicit Session(SessionParts parts);

  const AttachReply& reply() const { return parts_.reply; }
  std::uint32_t attachment() const { return parts_.attachment; }
  Connection& connection() { return parts_.connection; }
  int daemon_pidfd() const { return parts_.daemon_pidfd.get(); }
  const std::shared_ptr<const StatusTableReader>& status_table() const {
    return parts_.status_table;
  }
  const GenerationsReader& generations() const { return parts_.generations; }
  const std::shared_ptr<ArenaView>& arenas() const { return parts_.arenas; }
  OpTable& ops() { return ops_; }
  std::uint64_t next_request_id() { return ++request_id_; }
  void replace_status_table(std::shared_ptr<const StatusTableReader> table) {
    parts_.status_table = std::move(table);
  }

  // As the daemon's own word says; a value that it never writes reads as ended.
  SessionState state() const;
  Code end_code() const;
  // The daemon has said that it touches no memory of ours any more.
  bool is_quiet() const;

  // True once nothing new may be submitted: the socket is closed or the protocol is broken.
  bool closed() const { return closed_; }
  void close() { closed_ = true; }
  // Closes, and tells the daemon: it quiesces and then closes the socket. If it can't take the
  // message now, it sees the end of the socket instead. With copies of ours in flight it is not
  // told yet: whoever hears of the last one detaches again.
  void detach(Parting parting, bool copies_in_flight);
  bool parted_for_good() const { return parted_for_good_; }  // the daemon has been told so

  struct Submission {
    RequestEntry entry{};
    OpRecord record;
    const PageRules* rules = nullptr;  // with pages only
    std::span<const hicache_page> pages;
    // What has to be done with the operation's slot before the daemon may see the request.
    std::function<Result<void>(std::uint16_t slot)> prepare;
  };
  // busy: every slot is taken; protocol: the daemon's index is impossible; or what `prepare` says.
  Result<OpName> submit(Submission submission);

  // Frames that the daemon has told us to copy to or from, of operations that copy themselves.
  struct Prepared {
    OpName name;
    std::shared_ptr<const RankOp> op;
    std::vector<FrameRef> frames;  // page * kKindsMax + kind
  };
  std::vector<Prepared> take_prepared() { return std::exchange(prepared_, {}); }
  // What became of them. protocol: the daemon's index is impossible.
  [[nodiscard]] Code say_copied(const OpName& name, Code code);

  // Appends up to `max` completions; leases that they grant go into `leases`. protocol: the
  // daemon answered what was never asked.
  [[nodiscard]] Code take_completions(std::vector<hicache_completion>& out, std::size_t max,
                                      LeaseTable& leases);
  bool has_news() const { return completions_.has_news(); }

  // Operations whose deadline has passed without any answer, so that a daemon that hangs does
  // not hide it: each is reported late once.
  void report_overdue(Deadline now, std::vector<hicache_completion>& out);
  // Ends operations without the daemon. `memory_too` only when it can't touch memory any more.
  void abandon(bool memory_too, std::vector<hicache_completion>& out);
  // Reports every operation that names memory as late, once.
  void report_all_late(std::vector<hicache_completion>& out);

  // The client's side of the completion doorbell; see begin_wait in shm/doorbell.h.
  std::uint32_t begin_wait(std::uint32_t wait_flags);
  void end_wait(std::uint32_t remaining_flags);
  const std::uint32_t& wake_word() const { return server_->wake_word; }
  // Ends the futex waits of this process's own threads.
  void wake_own_waiters() const;

 private:
  std::optional<hicache_completion> judge(const CompletionEntry& entry, LeaseTable& leases,
                                          Code& verdict);
  Code note_prepared(const OpName& name, const OpRecord& record, bool terminal);
  std::uint64_t grant(const CompletionEntry& entry, const OpName& name, OpRecord& record,
                      LeaseTable& leases);
  void add_late(const OpName& name, OpRecord& record, std::vector<hicache_completion>& out);

  SessionParts parts_;
  ClientHeader* client_;
  const ServerHeader* server_;
  RequestProducer requests_;
  CompletionConsumer completions_;
  OpTable ops_;
  std::vector<Prepared> prepared_;
  std::uint64_t request_id_ = 0;
  bool closed_ = false;
  bool parted_for_good_ = false;
};

}  // namespace hc
