// SPDX-License-Identifier: Apache-2.0
// reload_replay: one poll over the ranks, the person, the daemon and the front end's wishes.
#include "client/ctl/reload_replay.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "client/ctl/admin_client.h"
#include "client/ctl/amount.h"
#include "client/ctl/engine_bus.h"
#include "client/ctl/monotonic.h"
#include "client/ctl/render.h"

namespace hc {

namespace {

constexpr std::uint64_t kStillNs = 240 * kNsPerSecond;  // above every bound inside a rank
constexpr std::uint64_t kLeftNs = 10 * kNsPerSecond;    // for leases to end
constexpr std::uint64_t kAskMs = 10'000;
constexpr int kLookMs = 100;                            // the progress line moves
constexpr int kBetweenAsksMs = 20;

RankCommand command_for(RankVerb verb) {
  RankCommand command;
  command.verb = verb;
  return command;
}

}  // namespace

Result<ReloadOutcome> ReloadReplay::run() {
  auto opened = group_.ask(command_for(RankVerb::open));
  HC_TRY(opened);
  const std::uint64_t begin_ns = monotonic_ns();
  HC_TRY_VOID(group_.tell(command_for(RankVerb::run)));
  HC_TRY_VOID(await_ranks());
  outcome_.elapsed_ns = monotonic_ns() - begin_ns;
  auto forgot = group_.ask(command_for(RankVerb::forget));
  HC_TRY(forgot);
  HC_TRY_VOID(ask_left());
  HC_TRY_VOID(group_.close());
  return outcome_;
}

Result<void> ReloadReplay::await_ranks() {
  std::vector<bool> is_done(setup_.plan.ranks, false);
  moved_ns_ = monotonic_ns();
  while (std::find(is_done.begin(), is_done.end(), false) != is_done.end()) {
    HC_TRY_VOID(look_once(is_done));
    HC_TRY_VOID(check_progress());
    show_progress();
  }
  progress_.clear();
  for (std::uint32_t rank = 0; rank < setup_.plan.ranks; ++rank) {
    if (group_.fd_of(rank) >= 0) {
      outcome_.living.push_back(rank);
    }
  }
  return {};
}

Result<void> ReloadReplay::look_once(std::vector<bool>& is_done) {
  std::vector<pollfd> events{{interrupt_.fd(), POLLIN, 0},
                             {daemon_.pidfd(), POLLIN, 0},
                             {share_.notice_fd, POLLIN, 0}};
  const std::size_t others = events.size();
  for (std::uint32_t rank = 0; rank < is_done.size(); ++rank) {
    events.push_back({is_done[rank] ? -1 : group_.fd_of(rank), POLLIN, 0});
  }
  if (::poll(events.data(), events.size(), kLookMs) < 0 && errno != EINTR) {
    return make_error(Code::io_error, "waiting for the ranks", errno);
  }
  if (events[0].revents != 0) {
    return make_error(Code::cancelled, "interrupted");
  }
  if (events[1].revents != 0) {
    return make_error(Code::disconnected, "the daemon ended by itself");
  }
  // Deaths first: the others wait for the news.
  for (std::uint32_t rank = 0; rank < is_done.size(); ++rank) {
    if (events[others + rank].revents != 0) {
      HC_TRY_VOID(take_news(rank, is_done));
    }
  }
  return events[2].revents != 0 ? restart() : Result<void>();
}

Result<void> ReloadReplay::take_news(std::uint32_t rank, std::vector<bool>& is_done) {
  const auto& kill = share_.plan.chaos.kill;
  auto reply = group_.take_reply(rank);
  if (!reply && kill && kill->rank == rank && share_.bus.death_ns() != 0) {
    share_.bus.mark_gone(rank);
    group_.bury(rank);
    is_done[rank] = true;
    return {};
  }
  HC_TRY(reply);
  is_done[rank] = true;
  return {};
}

Result<void> ReloadReplay::restart() {
  eventfd_t asked = 0;
  static_cast<void>(::eventfd_read(share_.notice_fd, &asked));
  const std::uint64_t begin_ns = monotonic_ns();
  daemon_.kill();
  HC_TRY_VOID(daemon_.start());
  group_.watch_daemon(daemon_.pidfd());
  outcome_.restart_ns += monotonic_ns() - begin_ns;
  ++outcome_.restarts;
  share_.bus.note_restart();
  return {};
}

Result<void> ReloadReplay::check_progress() {
  const std::uint64_t now_ns = monotonic_ns();
  const std::uint64_t ticks = share_.bus.ticks();
  if (ticks != seen_ticks_) {
    seen_ticks_ = ticks;
    moved_ns_ = now_ns;
  }
  if (now_ns - moved_ns_ > kStillNs) {
    return make_error(Code::timed_out, "the ranks stand still at tick " + std::to_string(ticks));
  }
  return {};
}

void ReloadReplay::show_progress() {
  const std::uint64_t total = setup_.trace.request_count();
  const std::uint64_t done = share_.bus.finished();
  progress_.step(done, total, "request " + format_count(done) + " of " + format_count(total));
}

// The ranks give back lease by lease; who holds one in the end has lost it.
Result<void> ReloadReplay::ask_left() {
  const std::uint64_t deadline_ns = monotonic_ns() + kLeftNs;
  for (;;) {
    const auto none = nlohmann::json::object();
    const auto status = ask_daemon(daemon_.admin_socket(), "status", none, kAskMs);
    HC_TRY(status);
    const auto stats = ask_daemon(daemon_.admin_socket(), "stats", none, kAskMs);
    HC_TRY(stats);
    outcome_.left = {};
    for (const auto& session : list_at(*status, "/sessions")) {
      outcome_.left.leases += number_at(session, "/leases");
    }
    outcome_.left.leased_frames = number_at(*stats, "/frames_leased");
    if (outcome_.left.leases + outcome_.left.leased_frames == 0 || monotonic_ns() > deadline_ns) {
      return {};
    }
    pollfd interrupted{interrupt_.fd(), POLLIN, 0};
    if (::poll(&interrupted, 1, kBetweenAsksMs) > 0) {
      return make_error(Code::cancelled, "interrupted");
    }
  }
}

}  // namespace hc
