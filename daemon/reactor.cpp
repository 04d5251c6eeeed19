// SPDX-License-Identifier: Apache-2.0
// reactor: turn, sleep, dispatch of events.
#include "daemon/reactor.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

namespace {

constexpr std::int64_t kSleepMsMax = 100;       // the last net under the sleep protocol
constexpr std::int64_t kPatienceMs = 10'000;    // what a load asks for, ten times as often
// After work the rings are looked at for this long before the loop sleeps: a client that answers
// quickly saves both sides a wake. With two processors or fewer it would take the client's own.
std::int64_t choose_spin_ns(std::uint32_t spin_us) {
  return spin_us != 0 ? spin_us * 1000LL : std::thread::hardware_concurrency() > 2 ? 20'000 : 0;
}

}  // namespace

Reactor::Reactor(const ReactorParts& parts)
    : parts_(parts), spin_ns_(choose_spin_ns(parts.spin_us)) {
  for (const Waitable* waitable : parts_.waitables) {
    const auto added = parts_.epoll.add(waitable->event_fd(), Trigger::edge,
                                        epoll_tag(EpollOwner::engine, 0));
    HC_CHECK(added.has_value());
  }
  const auto added =
      parts_.epoll.add(parts_.signal_fd, Trigger::level, epoll_tag(EpollOwner::signals, 0));
  HC_CHECK(added.has_value());
  watchdog_ns_ = static_cast<std::int64_t>(Notifier::watchdog_interval_us()) * 1000 / 2;
}

bool Reactor::turn() {
  now_ = parts_.clock.now();
  parts_.engine.begin_turn(now_);
  const bool requests = parts_.sessions.drain_rings();
  parts_.engine.turn(now_);
  parts_.sessions.take_opened();
  const bool moved = parts_.sessions.reap(now_);
  parts_.admin.turn(now_);
  parts_.sessions.publish();
  announce();
  if (watchdog_ns_ > 0 && now_.ns >= next_watchdog_ns_) {
    parts_.notifier.watchdog();  // this loop turns; a stuck one sends nothing
    next_watchdog_ns_ = now_.ns + watchdog_ns_;
  }
  return requests || moved;
}

// Ready once, when serving or holding; a load asks the manager for patience meanwhile. Not in every
// turn: the manager's socket holds few messages, and a full one would swallow the last, ready.
void Reactor::announce() {
  const EngineState state = parts_.engine.state();
  if (announced_ || state == EngineState::closed) {
    return;
  }
  if (state == EngineState::loading) {
    if (now_.ns >= next_patience_ns_) {
      parts_.notifier.extend_timeout(kPatienceMs * 1000);
      next_patience_ns_ = now_.ns + kPatienceMs / 10 * kNsPerMs;
    }
    return;
  }
  announced_ = true;
  parts_.notifier.ready(state == EngineState::holding ? "holding cold start" : "serving");
  log_info("daemon.ready", {{"state", state == EngineState::holding ? "holding" : "serving"}});
}

void Reactor::sleep() {
  if (now_ - last_work_ < spin_ns_) {
    parts_.sessions.watch_rings();
    return;
  }
  parts_.sessions.mark_sleeping();
  full_fence();
  std::int64_t timeout_ms = 0;
  if (!parts_.sessions.rings_have_news()) {
    const std::int64_t due_ns = parts_.engine.next_deadline() - parts_.clock.now();
    timeout_ms = std::clamp<std::int64_t>((due_ns + kNsPerMs - 1) / kNsPerMs, 0, kSleepMsMax);
  }
  const auto events = parts_.epoll.wait(static_cast<int>(timeout_ms));
  parts_.sessions.mark_awake();
  now_ = parts_.clock.now();
  for (const epoll_event& event : events) {
    handle(event.data.u64);
    last_work_ = now_;
  }
}

void Reactor::handle(std::uint64_t tag) {
  const auto number = static_cast<std::uint32_t>(tag);
  switch (static_cast<EpollOwner>(tag >> 56)) {
    case EpollOwner::none:
    case EpollOwner::session_doorbell:  // never read; the rings are drained every turn
    case EpollOwner::engine: return;    // polled every turn
    case EpollOwner::listener: parts_.sessions.on_listener(now_); return;
    case EpollOwner::session_socket: parts_.sessions.on_socket(number); return;
    case EpollOwner::session_pidfd: parts_.sessions.on_pidfd(number); return;
    case EpollOwner::group_member: parts_.sessions.on_member(number); return;
    case EpollOwner::admin_listener: parts_.admin.on_listener(); return;
    case EpollOwner::admin_socket: parts_.admin.on_socket(number); return;
    case EpollOwner::signals: {
      signalfd_siginfo info{};
      stopping_ = ::read(parts_.signal_fd, &info, sizeof info) == sizeof info || stopping_;
      return;
    }
  }
}

Result<void> Reactor::run() {
  bool held = parts_.engine.state() != EngineState::serving;
  while (!stopping_) {
    if (turn()) {
      last_work_ = now_;
    }
    if (held && parts_.engine.state() == EngineState::serving) {
      held = false;
      parts_.sessions.end_holding();
      continue;
    }
    sleep();
  }
  return drain();
}

}  // namespace hc
