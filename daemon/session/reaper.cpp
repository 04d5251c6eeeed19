// SPDX-License-Identifier: Apache-2.0
// reaper: the end of sessions, in the order that the README of this room gives.
#include <sys/socket.h>

#include <cstring>

#include "daemon/log/log.h"
#include "daemon/os/pidfd.h"
#include "daemon/session/session_server.h"
#include "proto/check.h"
#include "proto/test_hooks.h"
#include "shm/control_message.h"

namespace hc {

// Ends service. Later calls only add reasons why leases may go (pidfd, detach).
void SessionServer::end(Session& session, Code code, const std::string& reason) {
  if (session.phase == SessionPhase::ended || session.phase == SessionPhase::gone) {
    return;
  }
  const bool was_attached = session.phase == SessionPhase::attached;
  const bool was_known = was_attached || session.phase == SessionPhase::holding;
  session.phase = SessionPhase::ended;
  session.end_code = code;
  session.pending_switch.reset();
  session.pending_gets.clear();
  if (was_known) {
    log_info("session.ended", {{"session", session.number},
                               {"pid", session.peer.pid},
                               {"group", session.group},
                               {"rank", std::uint32_t{session.rank}},
                               {"code", code_name(code)},
                               {"reason", reason}});
  }
  if (was_attached) {
    engine_->end_service(session.engine_id);
  }
  if (session.rings != nullptr) {
    ServerHeader& header = session.rings->server_header();
    __atomic_store_n(&header.end_code, static_cast<std::int32_t>(code), __ATOMIC_RELAXED);
    store_release(header.state, static_cast<std::uint32_t>(SessionState::ended));
    session.publish_wanted = true;  // wakes a client that waits
  }
  Notice notice{static_cast<std::uint32_t>(NoticeKind::session_ended),
                static_cast<std::int32_t>(code)};
  std::vector<std::uint8_t> body(sizeof notice + reason.size());
  std::memcpy(body.data(), &notice, sizeof notice);
  std::memcpy(body.data() + sizeof notice, reason.data(), reason.size());
  send(session, header_for(MessageType::notice), body, {});
}

void SessionServer::unmap(Session& session) {
  EngineSession* engine_session = engine_->core().sessions.find(session.engine_id);
  HC_CHECK(engine_session != nullptr && engine_session->ops == 0);
  for (std::uint32_t i = 0; i < kRegionsPerSession; ++i) {
    drop_region(session, i, 0);
  }
  session.pending_ends.clear();
  session.pending_regions.clear();  // what comes of them is closed when it comes
  // What tells the client that its memory is its own comes after the fact.
  store_release(session.rings->server_header().quiet, 1U);
  HC_FAILPOINT(session_unmapped);
}

// What the client was told by completions comes before what its socket tells it.
void SessionServer::publish_now(Session& session) {
  if (!session.publish_wanted || session.rings == nullptr) {
    return;
  }
  session.publish_wanted = false;
  session.rings->completions.publish();
  wake_client(session.rings->server_header().wake_word,
              session.rings->client_header().client_waiting);
}

// The client sees the end at once; the close itself frees what it sent and nobody took.
void SessionServer::hang_up(Session& session) {
  if (!session.socket) {
    return;
  }
  if (!session.socket_closed) {
    epoll_.remove(session.socket.get());
    session.socket_closed = true;
  }
  ::shutdown(session.socket.get(), SHUT_RDWR);
  client_fds_.close_socket(std::move(session.socket));
}

// Whether its rank can touch no frame any more: it says so, or its process has ended, and what that
// had queued in a GPU had time to end. A file of the GPU may close after the socket. A stop waits
// as long for a rank that lives: its frames are nobody's any more then.
bool SessionServer::may_give_up(Session& session, Instant now) {
  if (session.client_dead && session.dead_at == Instant{}) {
    session.dead_at = now;
    HC_FAILPOINT(rank_quarantine_begun);
  }
  const std::int64_t grace_ns = HC_MUTANT(quarantine_skipped) ? 0 : kGpuGraceMs * kNsPerMs;
  const bool stopped = stops_at_ != Instant{} && now - stops_at_ >= kGpuGraceMs * kNsPerMs;
  return session.hands_off || stopped || HC_MUTANT(rank_freed_while_alive) ||
         (session.client_dead && now - session.dead_at >= grace_ns);
}

// One step; true when something moved.
bool SessionServer::reap_one(Session& session, Instant now) {
  if (session.phase == SessionPhase::connected &&
      now.ns - session.connected_at_ns > options_.attach_timeout_ms * kNsPerMs) {
    end(session, Code::timed_out, "no attach within the time limit");
    return true;
  }
  if (session.broken && session.phase != SessionPhase::ended) {
    end(session, Code::protocol, "the completion head went backwards");
    return true;
  }
  if (session.pending_switch && session.in_engine() && engine_->is_quiet(session.engine_id)) {
    finish_switch(session);
    return true;
  }
  if (session.phase != SessionPhase::ended) {
    return false;
  }
  if (session.in_engine()) {
    if (session.writes_frames && may_give_up(session, now)) {
      engine_->give_up_rank(session.engine_id);
    }
    if (!engine_->is_quiet(session.engine_id)) {
      return false;  // a copy may still touch the client's memory
    }
    unmap(session);
    publish_now(session);
    hang_up(session);  // tells a living client that its memory is its own
    HC_FAILPOINT(session_hung_up);
    const bool may_read = !session.client_dead && !session.detached;
    if (may_read && engine_->core().sessions.find(session.engine_id)->leases > 0) {
      return false;  // leases wait for the process, or for its next session
    }
    engine_->release_leases(session.engine_id);
    engine_->close_session(session.engine_id);
    session.engine_id = SessionTable::kNoSession;
  }
  session.phase = SessionPhase::gone;
  return true;
}

bool SessionServer::reap(Instant now) {
  bool moved = false;
  client_fds_.turn();
  if (listener_) {
    listener_->turn(now);
  } else if (stops_at_ == Instant{}) {
    stops_at_ = now;
  }
  for (std::uint32_t number = 0; number < sessions_.size(); ++number) {
    Session* session = sessions_[number].get();
    if (session == nullptr) {
      continue;
    }
    moved = reap_one(*session, now) || moved;
    if (session->phase == SessionPhase::gone) {
      remove(number);
    }
  }
  return moved;
}

void SessionServer::remove(std::uint32_t number) {
  Session& session = *sessions_[number];
  publish_now(session);
  if (session.doorbell_watched) {
    epoll_.remove(session.rings->doorbell());
  }
  if (session.pidfd_watched) {
    epoll_.remove(session.client_pidfd.get());
  }
  hang_up(session);
  if (session.in_group) {
    groups_.session_closed(session.group);
  }
  sessions_[number].reset();
}

void SessionServer::end_holding() {
  for (const auto& session : sessions_) {
    if (session != nullptr && session->phase == SessionPhase::holding) {
      session->detached = true;
      end(*session, Code::retry, "the cold start is over: attach again");
    }
  }
}

// A client that lost its session attaches again at once: without the listener it finds nobody, and
// the stop need not wait for sessions that begin after it.
void SessionServer::end_all(Code code) {
  if (listener_) {
    client_fds_.close_socket(listener_->end());
    listener_.reset();
  }
  for (const auto& session : sessions_) {
    if (session != nullptr) {
      session->detached = true;
      end(*session, code, "the daemon stops");
    }
  }
}

}  // namespace hc
