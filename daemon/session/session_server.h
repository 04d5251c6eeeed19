// SPDX-License-Identifier: Apache-2.0
// session_server: accepts clients, dispatches their messages, drains their rings and delivers
// completions.
//
// Owner: the reactor thread. Nothing here waits for a client: sockets are non-blocking, and a
// message that does not fit into a client's socket buffer ends its session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/session_line.h"
#include "daemon/os/disposer.h"
#include "daemon/os/epoll.h"
#include "daemon/os/gated_listener.h"
#include "daemon/session/client_fds.h"
#include "daemon/session/groups.h"
#include "daemon/session/session.h"
#include "proto/handshake.h"
#include "proto/thread_roles.h"

namespace hc {

// What a descriptor in the epoll set belongs to; the upper byte of its tag.
enum class EpollOwner : std::uint8_t {
  none = 0,
  listener = 1,
  session_socket = 2,
  session_doorbell = 3,
  session_pidfd = 4,
  engine = 5,
  admin_listener = 6,
  admin_socket = 7,
  signals = 8,
  group_member = 9,
};
constexpr std::uint64_t epoll_tag(EpollOwner owner, std::uint32_t value) {
  return static_cast<std::uint64_t>(owner) << 56 | value;
}

struct SessionServerOptions {
  std::string tenant;
  std::uint32_t sessions_max = 64;
  std::int64_t attach_timeout_ms = 2000;  // from connect to attach
  DeviceMemory* devices = nullptr;        // null: regions of GPUs are not copied here
  bool rank_copies = true;                // clients that ask for it get writable arenas
  std::string no_devices = "this daemon has no GPU";  // then, the reason
  ClientFdLimits fds{};
};

class SessionServer final : public CompletionSink {
 public:
  SessionServer(Epoll& epoll, UnixListener listener, const SessionServerOptions& options);
  ~SessionServer() override;

  // The engine is built with this object as its sink, so it comes later.
  void bind(Engine& engine, const Uuid& daemon_instance) HC_REACTOR;

  // Events of the epoll set.
  void on_listener(Instant now) HC_REACTOR;
  void on_socket(std::uint32_t number) HC_REACTOR;
  void on_pidfd(std::uint32_t number) HC_REACTOR;
  void on_member(std::uint32_t watch) HC_REACTOR { groups_.on_pidfd(watch); }

  // Takes requests from every ring; true when there was any.
  bool drain_rings() HC_REACTOR;
  // Publishes what was staged and wakes clients.
  void publish() HC_REACTOR;
  // Ends, switches and removes sessions as far as they can go; true when something moved.
  bool reap(Instant now) HC_REACTOR;
  // Answers registrations of device memory that has been opened.
  void take_opened() HC_REACTOR;
  // Serving has begun: clients that attached in hold attach again.
  void end_holding() HC_REACTOR;
  // Stops listening, refuses new operations and ends every session (stop of the daemon).
  void end_all(Code code) HC_REACTOR;

  void mark_sleeping() HC_REACTOR;
  void mark_awake() HC_REACTOR;
  // A request waits that can be taken now.
  bool rings_have_news() const HC_REACTOR;
  // Looks at the rings for some microseconds, or until one has news: a turn costs more than a look.
  void watch_rings() const HC_REACTOR;

  void complete(SessionId session, const CompletionEntry& entry,
                std::span<const FrameRef> frames) override HC_REACTOR;

  std::size_t open_count() const HC_REACTOR;
  std::vector<SessionLine> list() const HC_REACTOR;

 private:
  // control.cpp
  void dispatch(Session& session, const MessageHeader& header,
                std::span<const std::uint8_t> body, std::vector<UniqueFd>& fds) HC_REACTOR;
  void part(Session& session, bool comes_back) HC_REACTOR;
  Result<void> try_region(const SpaceDescriptor& space, std::span<const std::uint8_t> body,
                          std::vector<UniqueFd>& fds) HC_REACTOR;
  void register_region(Session& session, const MessageHeader& header,
                       std::span<const std::uint8_t> body, std::vector<UniqueFd>& fds) HC_REACTOR;
  void unregister_region(Session& session, const MessageHeader& header,
                         std::span<const std::uint8_t> body) HC_REACTOR;
  // device_regions.cpp
  Result<void> open_region(Session& session, const MessageHeader& header, const RegionBody& body,
                           EngineRegion judged, std::vector<UniqueFd>& fds) HC_REACTOR;
  Result<void> check_devices() const HC_REACTOR;
  Result<void> take_rank_region(Session& session, const RegionBody& body, EngineRegion judged)
      HC_REACTOR;
  Result<void> check_region_is_free(const Session& session, std::uint32_t region) HC_REACTOR;
  void finish_region(Session& session, const Session::PendingRegion& pending,
                     const DeviceOpened& opened) HC_REACTOR;
  // `ticket` of who waits for the end of device memory, or 0.
  void drop_region(Session& session, std::uint32_t region, std::uint64_t ticket) HC_REACTOR;
  static std::uint64_t region_ticket(const Session& session, std::uint32_t region);
  void take_closed() HC_REACTOR;
  Session* by_serial(std::uint64_t serial) HC_REACTOR;

  void start_switch(Session& session, const MessageHeader& header,
                    std::span<const std::uint8_t> body) HC_REACTOR;
  void finish_switch(Session& session) HC_REACTOR;
  void reply_stats(Session& session, const MessageHeader& header) HC_REACTOR;
  void reply(Session& session, const MessageHeader& request, const Result<void>& outcome)
      HC_REACTOR;
  void send(Session& session, const MessageHeader& header, std::span<const std::uint8_t> body,
            std::span<const int> fds) HC_REACTOR;

  // group_messages.cpp
  bool dispatch_group(Session& session, const MessageHeader& header,
                      std::span<const std::uint8_t> body, std::vector<UniqueFd>& fds) HC_REACTOR;
  void join_board(Session& session, const MessageHeader& header,
                  std::span<const std::uint8_t> body) HC_REACTOR;
  Result<void> watch_board(Session& session, std::span<const std::uint8_t> body,
                           std::vector<UniqueFd>& fds) HC_REACTOR;
  Result<void> post(Session& session, std::span<const std::uint8_t> body) HC_REACTOR;
  Result<void> get(Session& session, const MessageHeader& header,
                   std::span<const std::uint8_t> body) HC_REACTOR;
  void answer_gets(const std::string& group) HC_REACTOR;

  // attach.cpp
  void attach(Session& session, const MessageHeader& header, std::span<const std::uint8_t> body,
              std::vector<UniqueFd>& fds) HC_REACTOR;
  Result<void> try_attach(Session& session, std::span<const std::uint8_t> body,
                          std::vector<UniqueFd>& fds) HC_REACTOR;
  // hand_over.cpp
  struct BroughtLeases {
    Session* older = nullptr;  // null: nobody's
    std::uint64_t named = 0;   // the serial that stands in the request
    std::vector<LeaseId> leases;
  };
  Session* predecessor(const Session& newer, const AttachRequest& request) HC_REACTOR;
  Result<BroughtLeases> brought_leases(const Session& newer, const AttachRequest& request,
                                       std::span<const UniqueFd> list) HC_REACTOR;
  void take_over(Session& newer, const BroughtLeases& brought) HC_REACTOR;
  void give_up(const BroughtLeases& brought, Code code) HC_REACTOR;

  Result<void> adopt_pidfd(Session& session, UniqueFd& passed) HC_REACTOR;
  Result<void> attach_to_engine(Session& session, const SpaceDescriptor& descriptor,
                                std::uint16_t shards_on_node) HC_REACTOR;
  Result<void> watch_doorbell(Session& session) HC_REACTOR;
  std::vector<Session*> older_sessions(const Session& newer) HC_REACTOR;
  Result<void> may_supersede(const Session& newer) HC_REACTOR;
  void supersede(const Session& newer) HC_REACTOR;
  Result<void> reply_attached(Session& session, const MessageHeader& header) HC_REACTOR;
  Result<void> reply_holding(Session& session, const MessageHeader& header,
                             const SpaceDescriptor& descriptor) HC_REACTOR;
  void send_arenas(Session& session, const MessageHeader& header) HC_REACTOR;
  void fill_reply(const Session& session, AttachReply& reply) const HC_REACTOR;

  // reaper.cpp
  void end(Session& session, Code code, const std::string& reason) HC_REACTOR;
  bool reap_one(Session& session, Instant now) HC_REACTOR;
  bool may_give_up(Session& session, Instant now) HC_REACTOR;
  void unmap(Session& session) HC_REACTOR;
  void publish_now(Session& session) HC_REACTOR;
  void hang_up(Session& session) HC_REACTOR;
  void remove(std::uint32_t number) HC_REACTOR;

  // session_server.cpp
  bool can_take(Session& session) const HC_REACTOR;
  void accept_one(UniqueFd socket, Instant now) HC_REACTOR;
  void refuse(UniqueFd socket, const std::string& reason) HC_REACTOR;
  void end_unheard(Session& session, Code code, const std::string& reason) HC_REACTOR;
  bool drain_ring(Session& session) HC_REACTOR;
  void take_request(Session& session, const RequestEntry& entry) HC_REACTOR;
  bool take_rank_word(Session& session, const RequestEntry& entry) HC_REACTOR;
  bool is_listened_to(const Session& session) const HC_REACTOR;
  void answer(Session& session, const RequestEntry& entry, Code code) HC_REACTOR;
  void stage(Session& session, const CompletionEntry& entry) HC_REACTOR;
  Session* by_engine_id(SessionId id) HC_REACTOR;

  Epoll& epoll_;
  std::optional<GatedListener> listener_;  // none once the daemon stops
  Instant stops_at_{};                     // when that was first seen
  ClientFds client_fds_;
  Disposer regions_;  // no stranger's descriptor may hold up the end of mapped memory
  SessionServerOptions options_;
  Groups groups_;
  Engine* engine_ = nullptr;
  Uuid daemon_instance_{};
  UniqueFd daemon_pidfd_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::uint8_t> message_;
  std::uint64_t serials_ = 0;
  std::vector<DeviceOpened> opened_;
  std::vector<std::uint64_t> closed_;
};

}  // namespace hc
