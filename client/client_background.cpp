// SPDX-License-Identifier: Apache-2.0
// client_background: the thread that attaches, listens, and brings sessions to their end.
//
// Order at the end of a session, so that memory is never called free too early:
//   1. the socket is at its end: nothing new is submitted. Where this side gives up first, it
//      says so (detach, and the end of its own sending) and waits for the daemon's end
//   2. what the daemon published before that is taken
//   3. operations without memory, and all of them after an orderly end, are DISCONNECTED
//   4. otherwise the daemon is dying: its pidfd says when nothing of it runs any more. A daemon
//      that lives and has not closed the socket keeps the memory, however long that takes
//   5. only then the session object goes, and the next attempt to attach starts
#include <fcntl.h>
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "client/client.h"

namespace hc {

void Client::run() {
  ::pthread_setname_np(::pthread_self(), "hicache");
  std::uint32_t backoff_ms = kBackoffMinMs;
  while (attempt(backoff_ms) && pause(backoff_ms)) {
  }
  try {
    leave_leases();
  } catch (const std::exception&) {
    // The daemon ends them with this process.
  }
}

// One attempt to attach and, where it succeeds, the whole session. False when no other can follow.
// An exception (memory that runs short) costs no more than this one attempt.
bool Client::attempt(std::uint32_t& backoff_ms) {
  const std::uint64_t instances_before = instances();
  Deadline calm = Deadline::max();
  EndSeen end = EndSeen::no;
  try {
    if (!may_attach()) {
      return false;
    }
    auto plan = next_plan();
    const auto attached = attach(plan);
    if (!attached) {
      return note_failure(attached.error());
    }
    if (!publish(*attached, plan)) {
      return false;
    }
    plan.regions.clear();  // one that goes must not live on here: its descriptors keep memory
    calm = deadline_after_ms(kBackoffMaxMs);
    end = serve(*attached->session);
  } catch (const std::exception&) {
    static_cast<void>(note_failure(make_error(Code::busy, "out of memory")));
  }
  finish_session(end);
  // A daemon that ends every session at once must not be asked in a loop; one that was started
  // anew has not done so.
  if (std::chrono::steady_clock::now() >= calm || instances() != instances_before) {
    backoff_ms = kBackoffMinMs;
  }
  return true;
}

Client::EndSeen Client::serve(Session& session) {
  WakeFds wake{stop_fd_.get(), nudge_fd_.get()};
  Deadline until = look_at_overdue(session);
  bool broken = false;
  while (true) {
    auto message = session.connection().receive(until, wake);
    if (message) {
      if (!broken) {
        handle(*message);
      }
      continue;
    }
    const Code code = message.error().code;
    if (code == Code::disconnected) {
      return EndSeen::yes;
    }
    if (code == Code::cancelled || code == Code::io_error) {
      return EndSeen::no;
    }
    if (code == Code::timed_out && broken) {
      return EndSeen::no;
    }
    if (code == Code::timed_out) {
      until = look_at_overdue(session);
    } else if (!broken) {
      // The daemon is told, and gets a while to end the session in order.
      broken = true;
      until = deadline_after_ms(kExitWaitMs);
      wake.nudge = -1;
      const Lock lock(mutex_);
      break_session(message.error().message());
    }
  }
}

// An engine that sleeps on the event descriptor calls nothing while the daemon hangs, so this
// thread reports its operations late. Answers when to look again.
Deadline Client::look_at_overdue(Session& session) {
  std::uint64_t count = 0;
  // Before the look: a nudge that comes later ends the next wait.
  static_cast<void>(::read(nudge_fd_.get(), &count, sizeof count) == ssize_t{sizeof count});
  const Lock lock(mutex_);
  listening_until_ = deadline_after_ms(kDeadlineMsMax);
  if (!event_wanted_) {
    return listening_until_;
  }
  const std::size_t before = ready_.size();
  session.report_overdue(std::chrono::steady_clock::now(), ready_);
  if (ready_.size() > before) {
    announce();
  }
  if (const auto next = session.ops().next_late()) {
    listening_until_ = std::min(listening_until_, *next);
  }
  return listening_until_;
}

// Whatever happens, the session of the attempt is brought to its end: callers wait for it.
void Client::finish_session(EndSeen end) {
  std::shared_ptr<Session> session;
  {
    const Lock lock(mutex_);
    session = session_;
  }
  while (session != nullptr) {
    try {
      end_session(*session, end);
      return;
    } catch (const std::exception&) {
      // Every step can be repeated. hicache_close alone may leave it undone.
      if (first_readable({stop_fd_.get(), -1, -1}, kBackoffMinMs) != -1) {
        return;
      }
    }
  }
}

void Client::end_session(Session& session, EndSeen end) {
  bool memory_in_flight = false;
  {
    const Lock lock(mutex_);
    session.close();
  }
  if (!await_rank_copies()) {
    return;  // hicache_close has run out of time; it says so.
  }
  {
    const Lock lock(mutex_);
    if (rank_copier_ != nullptr) {
      session.detach(parting(), false);  // no frame is touched by us any more
    }
    session.connection().end_sending();
    static_cast<void>(session.take_completions(ready_, kCompletionEntries, leases_));
    const bool ended = session.state() == SessionState::ended;
    // What a GPU was given goes on without those who gave it: only their word that it has ended
    // counts.
    const bool is_free = ended && (session.is_quiet() || !session.ops().any_on_device());
    session.abandon(is_free && end == EndSeen::yes, ready_);
    memory_in_flight = session.ops().in_flight() > 0;
    for (auto& [id, call] : calls_) {
      call->done = true;
      call->code = Code::disconnected;
      call->text = "the daemon went away before it answered";
    }
    calls_.clear();
    const Code end_code = session.end_code();
    if (ended && (end_code == Code::superseded || end_code == Code::refused)) {
      final_ = true;
      last_failure_.code = end_code;
      leases_.end_all();
    }
    announce();
  }
  if (memory_in_flight) {
    await_daemon_exit(session, end);
  }
  const Lock lock(mutex_);
  regions_.forget_unsettled();
  if (!final_ && !session.parted_for_good()) {
    const AttachReply& reply = session.reply();
    previous_ = PreviousSession{reply.daemon_instance, reply.session_serial,
                                UniqueFd(::fcntl(session.daemon_pidfd(), F_DUPFD_CLOEXEC, 0))};
  }
  announce();
  session_.reset();
  changed_.notify_all();
}

void Client::await_daemon_exit(Session& session, EndSeen end) {
  Sign sign = await_sign(session, kExitLateMs, end);
  if (sign == Sign::none) {
    {
      const Lock lock(mutex_);
      session.report_all_late(ready_);
      announce();
    }
    do {
      sign = await_sign(session, kExitWaitMs, end);
    } while (sign == Sign::none && end == EndSeen::no);
  }
  if (sign == Sign::end_of_socket && session.state() != SessionState::ended) {
    sign = await_sign(session, kExitWaitMs, EndSeen::yes);
  }
  if (sign != Sign::stop && !await_gpu(session)) {
    sign = Sign::stop;
  }
  if (sign == Sign::stop) {
    return;  // hicache_close has run out of time; it says so.
  }
  const Lock lock(mutex_);
  session.abandon(true, ready_);
  announce();
}

// Frames and memory are in use until our own copies have ended. False: hicache_close has run out of
// time before.
bool Client::await_rank_copies() {
  RankCopier* copier = nullptr;
  {
    const Lock lock(mutex_);
    copier = rank_copier_.get();
  }
  if (copier == nullptr) {
    return true;
  }
  if (!copier->wait_idle(stop_fd_.get())) {
    return false;
  }
  copier->drop_arenas();
  return true;
}

// The copies that a dead daemon had queued in a GPU end within the grace. False: hicache_close has
// run out of time before.
bool Client::await_gpu(Session& session) {
  {
    const Lock lock(mutex_);
    if (!session.ops().any_on_device() || session.is_quiet()) {
      return true;
    }
    session.report_all_late(ready_);  // nobody waits that long without a word
    announce();
  }
  return first_readable({stop_fd_.get(), -1, -1}, kGpuGraceMs) == -1;
}

// Waits for the daemon's death or the stop and, unless it was seen, for the end of the socket. What
// the daemon still says there is for nobody.
Client::Sign Client::await_sign(Session& session, std::uint32_t timeout_ms, EndSeen end) {
  const Deadline deadline = deadline_after_ms(timeout_ms);
  int socket = end == EndSeen::yes ? -1 : session.connection().fd();
  while (true) {
    const int seen = first_readable({stop_fd_.get(), session.daemon_pidfd(), socket},
                                    static_cast<std::uint32_t>(poll_timeout_ms(deadline)));
    if (seen == -1) {
      return Sign::none;
    }
    if (seen == stop_fd_.get()) {
      return Sign::stop;
    }
    if (seen == session.daemon_pidfd()) {
      return Sign::daemon_dead;
    }
    const auto message = session.connection().receive(deadline, stop_fd_.get());
    if (!message && message.error().code == Code::disconnected) {
      return Sign::end_of_socket;
    }
    if (!message && message.error().code == Code::io_error) {
      socket = -1;  // It can't be read, and asking again at once would be a busy loop.
    }
  }
}

}  // namespace hc
