// SPDX-License-Identifier: Apache-2.0
// session_server: connections, rings and completions.
#include "daemon/session/session_server.h"

#include <unistd.h>

#include <array>

#include "daemon/log/log.h"
#include "daemon/os/pidfd.h"
#include "daemon/session/guard.h"
#include "proto/check.h"
#include "shm/control_message.h"
#include "shm/socket_message.h"

namespace hc {

namespace {

// Ended sessions linger, and a connection comes before its attach.
constexpr std::uint32_t kSpareConnections = 16;
// Between two turns of a loop that does not sleep; what disks and copiers bring waits as long.
constexpr int kLooksPerTurn = 32;

}  // namespace

SessionServer::SessionServer(Epoll& epoll, UnixListener listener,
                             const SessionServerOptions& options)
    : epoll_(epoll),
      client_fds_(options.fds),
      options_(options),
      groups_(epoll, epoll_tag(EpollOwner::group_member, 0), options.sessions_max) {
  listener_.emplace(epoll, std::move(listener), epoll_tag(EpollOwner::listener, 0),
                    "session.accept_failed");
  sessions_.resize(options.sessions_max + kSpareConnections);
  message_.resize(kMessageBytesMax);
}

SessionServer::~SessionServer() = default;

void SessionServer::bind(Engine& engine, const Uuid& daemon_instance) {
  engine_ = &engine;
  daemon_instance_ = daemon_instance;
  auto pidfd = open_pidfd(::getpid());
  HC_CHECK(pidfd.has_value());
  daemon_pidfd_ = std::move(*pidfd);
  listener_->watch();
}

std::size_t SessionServer::open_count() const {
  std::size_t count = 0;
  for (const auto& session : sessions_) {
    count += session != nullptr ? 1U : 0U;
  }
  return count;
}

std::vector<SessionLine> SessionServer::list() const {
  std::vector<SessionLine> lines;
  for (const auto& session : sessions_) {
    if (session == nullptr || session->phase == SessionPhase::connected) {
      continue;
    }
    SessionLine line{session->number, session->group, session->rank, session->world,
                     session->peer.pid, session->shard, 0, 0, 0, 0, 0, "", "",
                     groups_.board_of({session->group, session->rank, session->world})};
    line.state = session->phase == SessionPhase::attached  ? "attached"
                 : session->phase == SessionPhase::holding ? "holding"
                                                           : "ended";
    Core& core = engine_->core();
    if (const EngineSession* known =
            session->in_engine() ? core.sessions.find(session->engine_id) : nullptr) {
      line.ops = known->ops;
      line.leases = known->leases;
      line.leased_pages = known->leased_pages;
      line.quota_pages = known->quota.group == nullptr ? 0 : known->quota.group->pages;
      for (const EngineRegion& region : known->regions) {
        line.regions += region.present ? 1U : 0U;
        line.transfer = region.by_rank                    ? "rank: " + session->copies_itself
                        : region.mapping != kHostMapping ? "ipc"
                                                         : line.transfer;
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

void SessionServer::on_listener(Instant now) {
  for (int i = 0; i < 16 && listener_; ++i) {  // the rest waits for the next turn
    if (client_fds_.check_full()) {
      listener_->pause(now);
      return;
    }
    auto socket = listener_->accept(now);
    if (!socket) {
      return;
    }
    accept_one(std::move(*socket), now);
  }
}

void SessionServer::accept_one(UniqueFd socket, Instant now) {
  for (std::uint32_t number = 0; number < sessions_.size(); ++number) {
    if (sessions_[number] != nullptr) {
      continue;
    }
    auto peer = peer_credentials(socket.get());
    const auto added = peer ? epoll_.add(socket.get(), Trigger::level,
                                         epoll_tag(EpollOwner::session_socket, number))
                            : Result<void>(peer.error());
    if (!added) {
      refuse(std::move(socket), added.error().message());
      return;
    }
    auto session = std::make_unique<Session>();
    session->number = number;
    session->serial = ++serials_;
    session->socket = std::move(socket);
    session->peer = *peer;
    session->connected_at_ns = now.ns;
    sessions_[number] = std::move(session);
    return;
  }
  refuse(std::move(socket), "limits.sessions_max = " + std::to_string(options_.sessions_max) +
                                ": as many connections are open, and " +
                                std::to_string(kSpareConnections) + " more");
}

void SessionServer::refuse(UniqueFd socket, const std::string& reason) {
  log_warn("session.refused", {{"reason", reason}});
  client_fds_.close_socket(std::move(socket));
}

// Nothing more is taken from its socket.
void SessionServer::end_unheard(Session& session, Code code, const std::string& reason) {
  session.socket_closed = true;
  epoll_.remove(session.socket.get());
  end(session, code, reason);
}

void SessionServer::on_socket(std::uint32_t number) {
  Session* session = number < sessions_.size() ? sessions_[number].get() : nullptr;
  if (session == nullptr || !session->socket || session->socket_closed) {
    return;
  }
  for (int i = 0; i < 16 && !session->socket_closed; ++i) {
    if (client_fds_.check_full() && next_has_fds(session->socket.get())) {
      end_unheard(*session, Code::busy, "descriptors that clients sent before do not close");
      return;
    }
    std::vector<UniqueFd> refused;
    auto received = receive_message(session->socket.get(), message_, SocketWait::none, &refused);
    client_fds_.close(refused);
    if (!received) {
      if (received.error().code == Code::busy) {
        return;
      }
      end_unheard(*session, Code::disconnected, received.error().message());
      return;
    }
    MessageHeader header{};
    const std::span<const std::uint8_t> message(message_.data(), received->size_bytes);
    if (message.size() >= sizeof header) {
      std::memcpy(&header, message.data(), sizeof header);
    }
    if (header.magic != kMessageMagic || header.bytes != message.size() ||
        header.fd_count != received->fds.size()) {
      client_fds_.close(received->fds);
      end(*session, Code::protocol, "a control message has a wrong header");
      return;
    }
    dispatch(*session, header, message.subspan(sizeof header), received->fds);
    client_fds_.close(received->fds);  // what nobody took
  }
}

void SessionServer::on_pidfd(std::uint32_t number) {
  Session* session = number < sessions_.size() ? sessions_[number].get() : nullptr;
  if (session == nullptr || session->client_dead || !pidfd_is_dead(session->client_pidfd.get())) {
    return;
  }
  session->client_dead = true;
  epoll_.remove(session->client_pidfd.get());
  session->pidfd_watched = false;
  if (session->in_group && !session->detached) {
    groups_.process_ended({session->group, session->rank, session->world});
  }
  end(*session, Code::disconnected, "the client process has ended");
}

bool SessionServer::drain_rings() {
  bool any = false;
  for (const auto& session : sessions_) {
    if (session != nullptr && is_listened_to(*session)) {
      any = drain_ring(*session) || any;
    }
  }
  if (any) {
    publish();  // what could be answered at once does not wait for the rest of the turn
  }
  return any;
}

// Takes only what can be answered: each request reserves all its completions.
bool SessionServer::drain_ring(Session& session) {
  std::uint32_t room = 0;
  if (session.rings->completions.room_for_more(room, session.credit_total + kCompletionsPerOp) !=
      Code::ok) {
    end(session, Code::protocol, "the completion head is impossible");
    return false;
  }
  const std::uint32_t free_room = room - std::min(room, session.credit_total);
  std::array<RequestEntry, 32> entries;
  const std::size_t batch = std::min<std::size_t>(entries.size(), free_room / kCompletionsPerOp);
  std::uint32_t taken = 0;
  const Code code = session.rings->requests.take(std::span(entries).first(batch), taken);
  if (code != Code::ok) {
    end(session, Code::protocol, "the request tail is impossible");
    return false;
  }
  const bool was_over = session.phase == SessionPhase::ended;
  for (std::uint32_t i = 0; i < taken && (was_over || session.phase != SessionPhase::ended); ++i) {
    take_request(session, entries[i]);
  }
  return taken > 0;
}

// Service may be over while the rank still copies: nothing but its word on that is taken then.
bool SessionServer::is_listened_to(const Session& session) const {
  const bool in_service =
      session.phase == SessionPhase::attached || session.phase == SessionPhase::holding;
  const bool copies = session.phase == SessionPhase::ended && session.writes_frames &&
                      !session.broken && session.end_code != Code::protocol &&
                      session.in_engine() && engine_->is_with_rank(session.engine_id);
  return session.rings != nullptr && (in_service || copies);
}

// False: the entry is no word of a rank that anybody waits for.
bool SessionServer::take_rank_word(Session& session, const RequestEntry& entry) {
  const bool awaited = session.in_engine() && entry.op_slot < kOpSlotsPerSession &&
                       entry.page_count == 0 && engine_->awaits_rank(session.engine_id, entry);
  if (!awaited) {
    return false;
  }
  ++session.credit[entry.op_slot];  // of the next `prepared`
  ++session.credit_total;
  engine_->rank_copied(session.engine_id, entry);
  return true;
}

void SessionServer::take_request(Session& session, const RequestEntry& entry) {
  if (entry.verb == static_cast<std::uint8_t>(Verb::copied)) {
    if (!take_rank_word(session, entry)) {
      end(session, Code::protocol, "a rank says that it has copied what it was not told of");
    }
    return;
  }
  if (session.phase == SessionPhase::ended) {
    return;
  }
  if (!entry_keeps_protocol(entry) || session.credit[entry.op_slot] != 0) {
    end(session, Code::protocol, "a request names an impossible or busy operation slot, an "
                                 "unknown verb, or sets spare bytes");
    return;
  }
  session.credit[entry.op_slot] = kCompletionsPerOp;
  session.credit_total += kCompletionsPerOp;
  if (session.phase == SessionPhase::holding) {
    answer(session, entry, Code::not_ready);
    return;
  }
  const EngineSession* engine_session = engine_->core().sessions.find(session.engine_id);
  HC_CHECK(engine_session != nullptr);
  Judged judged = judge_request(entry, session.rings->client_map(), *engine_session,
                                engine_->core().family_of(session.space).descriptor);
  if (judged.code != Code::ok) {
    answer(session, entry, judged.code);
    return;
  }
  engine_->submit(session.engine_id, std::move(judged.request));
}

void SessionServer::answer(Session& session, const RequestEntry& entry, Code code) {
  CompletionEntry completion{};
  completion.verb = entry.verb;
  completion.ack = static_cast<std::uint8_t>(Ack::done);
  completion.op_slot = entry.op_slot;
  completion.op_sequence = entry.op_sequence;
  completion.client_data = entry.client_data;
  completion.code = static_cast<std::int32_t>(code);
  completion.terminal = 1;
  stage(session, completion);
}

void SessionServer::stage(Session& session, const CompletionEntry& entry) {
  std::uint8_t& credit = session.credit[entry.op_slot];
  HC_CHECK(credit > 0);
  HC_CHECK(session.credit_total >= credit);
  const std::uint8_t used = entry.terminal != 0 ? credit : std::uint8_t{1};
  HC_CHECK(entry.terminal != 0 || credit > 1);  // the terminal one keeps its place
  credit = static_cast<std::uint8_t>(credit - used);
  session.credit_total -= used;
  if (session.rings->completions.stage(entry) == Code::ok) {
    session.publish_wanted = true;
  } else {
    // Room was reserved, so only a client that moved its head backwards gets here. The engine is in
    // the middle of this completion: the session ends later.
    session.broken = true;
  }
}

Session* SessionServer::by_engine_id(SessionId id) {
  for (const auto& session : sessions_) {
    if (session != nullptr && session->in_engine() && session->engine_id == id) {
      return session.get();
    }
  }
  return nullptr;
}

void SessionServer::complete(SessionId id, const CompletionEntry& entry,
                             std::span<const FrameRef> frames) {
  Session* session = by_engine_id(id);
  HC_CHECK(session != nullptr);
  if (!frames.empty()) {
    session->rings->write_results(entry.op_slot, frames);
  }
  stage(*session, entry);
}

void SessionServer::publish() {
  for (const auto& session : sessions_) {
    if (session == nullptr || !session->publish_wanted) {
      continue;
    }
    session->publish_wanted = false;
    session->rings->completions.publish();
    const std::uint32_t& waiting = session->rings->client_header().client_waiting;
    wake_client(session->rings->server_header().wake_word, waiting);
    if ((load_relaxed(waiting) & kWaitPacket) != 0 && !session->socket_closed) {
      send(*session, header_for(MessageType::wake), {}, {});
    }
  }
}

void SessionServer::mark_sleeping() {
  for (const auto& session : sessions_) {
    if (session != nullptr && session->rings != nullptr) {
      hc::mark_sleeping(session->rings->server_header().daemon_sleeping);
    }
  }
}

void SessionServer::mark_awake() {
  for (const auto& session : sessions_) {
    if (session != nullptr && session->rings != nullptr) {
      hc::mark_awake(session->rings->server_header().daemon_sleeping);
    }
  }
}

// A client that takes no completions gets no further request served; it must not keep the loop
// awake meanwhile.
bool SessionServer::can_take(Session& session) const {
  std::uint32_t room = 0;
  const std::uint32_t wanted = session.credit_total + kCompletionsPerOp;
  return session.rings->completions.room_for_more(room, wanted) != Code::ok || room >= wanted;
}

bool SessionServer::rings_have_news() const {
  for (const auto& session : sessions_) {
    const bool listening = session != nullptr && is_listened_to(*session);
    if (listening && session->rings->requests.has_news() && can_take(*session)) {
      return true;
    }
  }
  return false;
}

void SessionServer::watch_rings() const {
  for (int look = 0; look < kLooksPerTurn && !rings_have_news(); ++look) {
    spin_pause();
  }
}

}  // namespace hc
