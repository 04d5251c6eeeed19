// SPDX-License-Identifier: Apache-2.0
// client: opening, closing, and what state the client is in.
#include "client/client.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "proto/test_hooks.h"
#include "shm/doorbell.h"

namespace hc {

namespace {

// Errors after which the next attempt may well succeed.
bool attempt_may_succeed_later(Code code) {
  return code == Code::disconnected || code == Code::timed_out || code == Code::busy ||
         code == Code::io_error || code == Code::not_ready;
}

// The engine's signals are the engine's. What a thread raises by its own fault stays unblocked: a
// blocked one would kill the process past the engine's crash handler.
sigset_t signals_of_the_engine() {
  constexpr std::array kOwnFaults{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  sigset_t signals{};
  sigfillset(&signals);
  for (const int fault : kOwnFaults) {
    sigdelset(&signals, fault);
  }
  return signals;
}

}  // namespace

Client::Client(OpenPlan plan)
    : plan_(std::move(plan)),
      jitter_(static_cast<std::minstd_rand::result_type>(plan_.incarnation | 1U)),
      parts_(plan_.space, plan_.shard) {
  ready_.reserve(kOpSlotsPerSession * kCompletionsPerOp);
}

Client::~Client() {
  if (background_.joinable()) {
    static_cast<void>(close(0));
  }
}

Result<std::unique_ptr<Client>> Client::open(OpenPlan plan) {
  std::unique_ptr<Client> client(new Client(std::move(plan)));
  HC_TRY_VOID(client->start());
  HC_TRY_VOID(client->await_open());
  return client;
}

Result<void> Client::start() {
  if (!fork_guard_.works()) {
    return make_error(Code::unsupported, "this kernel has no MADV_WIPEONFORK", errno);
  }
  auto stop = make_doorbell();
  HC_TRY(stop);
  auto event = make_doorbell();
  HC_TRY(event);
  auto nudge = make_doorbell();
  HC_TRY(nudge);
  stop_fd_ = std::move(*stop);
  event_fd_ = std::move(*event);
  nudge_fd_ = std::move(*nudge);
  const sigset_t blocked = signals_of_the_engine();  // the thread inherits the mask
  sigset_t before{};
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  Result<void> started;
  try {
    background_ = std::thread([this] { run(); });
  } catch (const std::system_error& caught) {
    started = make_error(Code::io_error, "start the background thread", caught.code().value());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

Result<void> Client::await_open() {
  const Deadline deadline = deadline_after_ms(plan_.attach_timeout_ms);
  Lock lock(mutex_);
  const auto settled = [this] {
    return instances_ > 0 || final_ ||
           (attempts_ > 0 && (plan_.background || !attempt_may_succeed_later(last_failure_.code)));
  };
  changed_.wait_until(lock, deadline, settled);
  if (instances_ > 0) {
    return {};
  }
  if (plan_.background && !final_ &&
      (attempts_ == 0 || attempt_may_succeed_later(last_failure_.code))) {
    return {};
  }
  if (attempts_ == 0) {
    return make_error(Code::timed_out, "the daemon at " + plan_.socket_path +
                                           " has not answered in " +
                                           std::to_string(plan_.attach_timeout_ms) + " ms");
  }
  return last_failure_;
}

Result<void> Client::close(std::uint32_t timeout_ms) {
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  closing_ = true;
  close_by_ = deadline;
  HC_FAILPOINT(client_close_begun);
  if (attached()) {
    // The daemon must not hear of an end before our own copies have ended.
    changed_.wait_until(lock, deadline, [this] { return rank_copies_ == 0 || !attached(); });
  }
  if (attached()) {
    session_->detach(parting(), rank_copies_ > 0);
  }
  const bool ended = changed_.wait_until(lock, deadline, [this] { return session_ == nullptr; });
  stop_ = true;
  static_cast<void>(ring_doorbell(stop_fd_.get()));
  lock.unlock();
  background_.join();
  HC_FAILPOINT(client_session_over);
  rank_copier_.reset();  // waits for copies that run, and tells the daemon of their ends
  if (!ended) {
    return make_error(Code::timed_out,
                      "the daemon has not ended the session in " + std::to_string(timeout_ms) +
                          " ms: memory of operations in flight may still be touched");
  }
  return {};
}

Error Client::not_attached() const {
  if (final_) {
    const bool superseded = last_failure_.code == Code::superseded;
    return make_error(superseded ? Code::superseded : Code::refused, last_failure_.message());
  }
  return make_error(Code::disconnected, "not attached: " + last_failure_.message());
}

Result<void> Client::check_attached() const {
  if (!attached() || session_->state() == SessionState::ended) {
    return not_attached();
  }
  return {};
}

Result<void> Client::check_data(bool held_is_ok) const {
  HC_TRY_VOID(check_attached());
  if (switch_target_.has_value()) {
    // After an unconfirmed switch nobody knows under which weights a page would be kept.
    return make_error(Code::busy, "the switch to weight version '" + *switch_target_ +
                                      "' is not confirmed: call hicache_space_switch again");
  }
  if (!held_is_ok && session_->state() == SessionState::holding) {
    return make_error(Code::not_ready, "the daemon holds its cold start");
  }
  return {};
}

Result<void> Client::state() {
  const Lock lock(mutex_);
  HC_TRY_VOID(check_attached());
  if (session_->state() == SessionState::holding) {
    return make_error(Code::not_ready, "the daemon holds its cold start");
  }
  return {};
}

std::uint64_t Client::instances() {
  const Lock lock(mutex_);
  return instances_;
}

int Client::event_fd() {
  const Lock lock(mutex_);
  event_wanted_ = true;
  if (attached()) {
    static_cast<void>(session_->begin_wait(wait_flags()));
    // An operation in flight may become late before the background thread looks of itself.
    static_cast<void>(ring_doorbell(nudge_fd_.get()));
  }
  // What came before the daemon knew of the wish has brought no message.
  static_cast<void>(ring_doorbell(event_fd_.get()));
  return event_fd_.get();
}

void Client::break_session(std::string why) {
  last_failure_ = make_error(Code::disconnected, std::move(why));
  // Until the daemon has closed the socket operations keep their memory.
  session_->detach(parting(), rank_copies_ > 0);
}

void Client::announce() {
  changed_.notify_all();
  if (session_ != nullptr && waiters_ > 0) {
    session_->wake_own_waiters();
  }
  if (event_wanted_) {
    static_cast<void>(ring_doorbell(event_fd_.get()));
  }
}

}  // namespace hc
