// SPDX-License-Identifier: Apache-2.0
// client_background: the thread that attaches, listens, and attaches again.
//
// Order at the end of a session, so that memory is never called free too early:
//   1. the socket is at its end: nothing new is submitted
//   2. what the daemon published before that is taken
//   3. operations without memory, and all of them after an orderly end, are DISCONNECTED
//   4. otherwise the daemon is dying: its pidfd says when nothing of it runs any more
//   5. only then the session object goes, and the next attempt to attach starts
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "client/client.h"

namespace hc {

namespace {

// The first descriptor that is readable within the time, or -1.
int first_readable(std::array<int, 2> fds, std::uint32_t timeout_ms) {
  const Deadline deadline = deadline_after_ms(timeout_ms);
  while (true) {
    std::array<pollfd, 2> ready{{{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}}};
    const int count = ::poll(ready.data(), ready.size(), poll_timeout_ms(deadline));
    for (const pollfd& entry : ready) {
      if (count > 0 && entry.revents != 0) {
        return entry.fd;
      }
    }
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return -1;
    }
  }
}

}  // namespace

void Client::run() {
  ::pthread_setname_np(::pthread_self(), "hicache");
  std::uint32_t backoff_ms = kBackoffMinMs;
  while (true) {
    AttachPlan plan;
    {
      const Lock lock(mutex_);
      if (closing_ || attachments_ == kAttachmentsMax) {
        return;
      }
      plan.open = plan_;
      plan.attachment = attachments_ + 1;
      plan.regions = regions_.registered();
      plan.deadline = deadline_after_ms(plan_.attach_timeout_ms);
      plan.stop_fd = stop_fd_.get();
    }
    const std::uint64_t instances_before = instances();
    auto session = attach(plan);
    if (session) {
      if (!publish(*session, plan)) {
        return;
      }
      const Deadline calm = deadline_after_ms(kBackoffMaxMs);
      serve(**session);
      end_session(**session);
      // A daemon that ends every session at once must not be asked in a loop; one that was
      // started anew has not done so.
      if (std::chrono::steady_clock::now() >= calm || instances() != instances_before) {
        backoff_ms = kBackoffMinMs;
      }
      session->reset();
    } else if (!note_failure(session.error())) {
      return;
    }
    if (!pause(backoff_ms)) {
      return;
    }
  }
}

bool Client::publish(const std::shared_ptr<Session>& session, const AttachPlan& plan) {
  const Lock lock(mutex_);
  if (closing_) {
    return false;
  }
  session_ = session;
  attachments_ = session->attachment();
  ++attempts_;
  if (instances_ == 0 || session->reply().daemon_instance != last_instance_) {
    last_instance_ = session->reply().daemon_instance;
    ++instances_;
  }
  last_failure_ = make_error(Code::disconnected, "the daemon closed the connection");
  for (const auto& region : plan.regions) {
    // Unregistered by its owner while this attempt was registering it.
    if (regions_.at(region->plan.request.region).state == RegionState::free) {
      unregister_unasked(region->plan.request.region);
    }
  }
  session_->say_waiting(wait_flags());
  announce();
  return true;
}

// False when no later attempt can succeed.
bool Client::note_failure(const Error& error) {
  const Lock lock(mutex_);
  ++attempts_;
  last_failure_ = error;
  final_ = attach_is_final(error.code);
  announce();
  return !final_;
}

void Client::serve(Session& session) {
  while (true) {
    auto message = session.connection().receive(deadline_after_ms(kDeadlineMsMax), stop_fd_.get());
    if (message) {
      handle(*message);
    } else if (message.error().code != Code::timed_out) {
      return;
    }
  }
}

void Client::end_session(Session& session) {
  bool orderly = false;
  bool memory_in_flight = false;
  {
    const Lock lock(mutex_);
    session.close();
    static_cast<void>(session.take_completions(ready_, kCompletionEntries, leases_));
    orderly = session.state() == SessionState::ended;
    session.abandon(orderly, ready_);
    memory_in_flight = session.ops().in_flight() > 0;
    leases_.end_all();
    for (auto& [id, call] : calls_) {
      call->done = true;
      call->code = Code::disconnected;
      call->text = "the daemon went away before it answered";
    }
    calls_.clear();
    const Code end_code = session.end_code();
    if (orderly && (end_code == Code::superseded || end_code == Code::refused)) {
      final_ = true;
      last_failure_.code = end_code;
    }
    announce();
  }
  if (memory_in_flight) {
    await_daemon_exit(session);
  }
  const Lock lock(mutex_);
  regions_.forget_unsettled();
  announce();
  session_.reset();
  changed_.notify_all();
}

void Client::await_daemon_exit(Session& session) {
  const std::array<int, 2> fds{session.daemon_pidfd(), stop_fd_.get()};
  int seen = first_readable(fds, kExitLateMs);
  if (seen == -1) {
    const Lock lock(mutex_);
    session.report_all_late(ready_);
    announce();
  }
  if (seen == -1) {
    seen = first_readable(fds, kExitWaitMs);
  }
  if (seen == stop_fd_.get()) {
    return;  // hicache_close has run out of time; it says so.
  }
  const Lock lock(mutex_);
  session.abandon(true, ready_);
  announce();
}

// Waits out the back-off, with jitter so that the ranks of a node do not come all at once. False
// when the client is being closed or can't attach any more.
bool Client::pause(std::uint32_t& backoff_ms) {
  {
    const Lock lock(mutex_);
    if (closing_ || final_) {
      return false;
    }
  }
  std::uniform_int_distribution<std::uint32_t> jittered(backoff_ms / 2, backoff_ms);
  backoff_ms = std::min(backoff_ms * 2, kBackoffMaxMs);
  return first_readable({stop_fd_.get(), stop_fd_.get()}, jittered(jitter_)) == -1;
}

}  // namespace hc
