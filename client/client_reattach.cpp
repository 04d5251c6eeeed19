// SPDX-License-Identifier: Apache-2.0
// client_reattach: from one session to the next: what is asked for, what the answer means for
// regions and leases, and the pause between two attempts.
//
// Whether the leases of the session before go on only the daemon knows. Until it has answered they
// are alive, and nothing is done with them: what is released meanwhile stands in orphans_. They end
// here when the daemon says no, when it is another daemon, when it dies, and when no session can
// follow any more.
#include <algorithm>
#include <utility>

#include "client/client.h"

namespace hc {

namespace {

// For the word that no session follows, where none stands when the client is closed.
constexpr std::uint32_t kGoodbyeMs = 500;

}  // namespace

// False when the client is being closed or has used up its attachments.
bool Client::may_attach() {
  const Lock lock(mutex_);
  return !closing_ && attachments_ != kAttachmentsMax;
}

AttachPlan Client::next_plan() {
  const Lock lock(mutex_);
  AttachPlan plan;
  plan.open = plan_;
  if (previous_) {
    plan.previous_daemon = previous_->daemon;
    plan.previous_session = previous_->serial;
    plan.leases = leases_.list();
  }
  plan.attachment = attachments_ + 1;
  plan.regions = regions_.to_register();
  plan.deadline = deadline_after_ms(plan_.attach_timeout_ms);
  plan.stop_fd = stop_fd_.get();
  return plan;
}

bool Client::publish(const Attached& attached, const AttachPlan& plan) {
  const Lock lock(mutex_);
  if (closing_) {
    attached.session->detach(Parting::for_good, false);
    previous_.reset();
    return false;
  }
  session_ = attached.session;
  attachments_ = session_->attachment();
  take_over_leases();
  ++attempts_;
  if (instances_ == 0 || session_->reply().daemon_instance != last_instance_) {
    last_instance_ = session_->reply().daemon_instance;
    ++instances_;
  }
  watch_board_again();
  last_failure_ = make_error(Code::disconnected, "the daemon closed the connection");
  for (const auto& region : plan.regions) {
    const std::uint32_t number = region->plan.request.region;
    const auto refused = attached.refused_regions.find(number);
    const bool accepted = refused == attached.refused_regions.end();
    RegionSlot& slot = regions_.at(number);
    if (slot.state != RegionState::free) {
      slot.state = accepted ? RegionState::registered : RegionState::failed;
      slot.refusal = accepted ? std::string() : refused->second;
    } else if (accepted) {
      // Unregistered by its owner while this attempt was registering it.
      unregister_unasked(number);
    }
  }
  give_arenas();
  give_back_orphans();
  static_cast<void>(session_->begin_wait(wait_flags()));
  announce();
  return true;
}

// Under the mutex, at each attachment.
void Client::take_over_leases() {
  const AttachReply& reply = session_->reply();
  const bool kept =
      previous_ && reply.daemon_instance == previous_->daemon && reply.leases_kept != 0;
  if (kept) {
    leases_.keep_listed();
  } else {
    first_attachment_ = session_->attachment();
  }
  if (previous_ && !kept) {
    leases_.end_all();
  }
  previous_.reset();
}

// False when no later attempt can succeed.
bool Client::note_failure(Error error) {
  const Lock lock(mutex_);
  ++attempts_;
  last_failure_ = std::move(error);
  final_ = attach_is_final(last_failure_.code);
  if (final_ && previous_) {
    previous_.reset();
    leases_.end_all();
  }
  announce();
  return !final_;
}

// Closed without a session, while the daemon may keep leases for the next one: it is told that
// there is none, in a session that brings nothing. Best effort; with the process they end anyway.
void Client::leave_leases() {
  const bool may_keep =
      previous_ && first_readable({previous_->daemon_pidfd.get(), -1, -1}, 0) == -1;
  if (!may_keep) {
    return;
  }
  auto plan = next_plan();
  plan.attachment = 1;  // nothing is ever done in it
  plan.regions.clear();
  plan.leases.clear();
  plan.stop_fd = -1;
  {
    const Lock lock(mutex_);
    plan.deadline = std::min(close_by_, deadline_after_ms(kGoodbyeMs));
  }
  if (const auto attached = attach(plan)) {
    attached->session->detach(Parting::for_good, false);
  }
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
  const Deadline until = deadline_after_ms(jittered(jitter_));
  backoff_ms = std::min(backoff_ms * 2, kBackoffMaxMs);
  while (true) {
    const int daemon = previous_ ? previous_->daemon_pidfd.get() : -1;
    const int seen = first_readable({stop_fd_.get(), daemon, -1},
                                    static_cast<std::uint32_t>(poll_timeout_ms(until)));
    if (seen == -1 || seen != daemon) {
      return seen == -1;
    }
    previous_.reset();  // no daemon keeps the leases any more
    const Lock lock(mutex_);
    leases_.end_all();
    announce();
  }
}

}  // namespace hc
