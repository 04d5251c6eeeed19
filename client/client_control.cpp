// SPDX-License-Identifier: Apache-2.0
// client_control: calls that go over the control socket, and what the daemon says there.
#include <poll.h>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "client/argument_error.h"
#include "client/client.h"
#include "proto/test_hooks.h"
#include "shm/doorbell.h"

namespace hc {

namespace {

constexpr int kSendRetryMs = 10;
constexpr Bounds kTimeoutBounds{1, kDeadlineMsMax};

}  // namespace

// Sending never waits inside the mutex: when the daemon does not read, others go on meanwhile.
Result<Client::CallPtr> Client::begin_call(Lock& lock, ControlRequest request, CallPtr call,
                                           Deadline deadline) {
  const std::shared_ptr<Session> session = session_;
  call->request_id = session->next_request_id();
  calls_.emplace(call->request_id, call);
  while (true) {
    const auto sent =
        session->connection().send(request.type, call->request_id, request.body, request.fds);
    if (sent) {
      return call;
    }
    const bool again =
        sent.error().code == Code::busy && std::chrono::steady_clock::now() < deadline;
    if (!again) {
      calls_.erase(call->request_id);
      return sent.error().code == Code::busy
                 ? make_error(Code::timed_out, "the daemon does not read its socket")
                 : sent.error();
    }
    lock.unlock();
    pollfd writable{session->connection().fd(), POLLOUT, 0};
    static_cast<void>(::poll(&writable, 1, kSendRetryMs));
    lock.lock();
    if (call->done) {
      return not_attached();
    }
  }
}

Result<void> Client::end_call(Lock& lock, const CallPtr& call, Deadline deadline) {
  if (!changed_.wait_until(lock, deadline, [&call] { return call->done; })) {
    return make_error(Code::timed_out, "the daemon has not answered in time");
  }
  if (call->code != Code::ok) {
    return make_error(call->code, call->text);
  }
  return {};
}

// The call was never sent, or its session has ended: whoever else waits for it has to know.
void Client::fail_call(ControlCall& call, const Error& error) {
  if (!call.done) {
    call.done = true;
    call.code = error.code;
    call.text = error.message();
  }
  changed_.notify_all();
}

Result<void> Client::check_region_number_is_free(std::uint32_t number) {
  const RegionSlot& slot = regions_.at(number);
  if (slot.state == RegionState::registered && slot.given_up && attached()) {
    unregister_unasked(number);  // It could not be taken back before.
  }
  const bool usable = slot.state == RegionState::registered || slot.state == RegionState::failed;
  if (usable && !slot.given_up) {
    return make_error(Code::bad_argument, "region.region = " + std::to_string(number) +
                                              ": must be a number that is not in use");
  }
  if (slot.state != RegionState::free) {
    return make_error(Code::busy, "region.region = " + std::to_string(number) +
                                      ": an earlier call for it is not answered yet");
  }
  return {};
}

Result<void> Client::register_region(const hicache_region* region, std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, kTimeoutBounds));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  auto plan = check_region(region, plan_.space);
  HC_TRY(plan);
  HC_TRY_VOID(check_region_number_is_free(region->region));
  HC_TRY_VOID(check_attached());
  std::vector<UniqueFd> copy;
  copy.emplace_back(::fcntl(region->fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.front()) {
    return make_error(Code::io_error, "duplicate region.fd", errno);
  }
  return announce_region(lock, {std::move(*plan), std::move(copy)}, deadline);
}

// Its number is free, and there is a session.
Result<void> Client::announce_region(Lock& lock, KnownRegion region, Deadline deadline) {
  const std::uint32_t number = region.plan.request.region;
  RegionSlot& slot = regions_.at(number);
  ControlRequest request{MessageType::register_region, region.plan.encode(), region.raw_fds()};
  slot.known = std::make_shared<const KnownRegion>(std::move(region));
  slot.state = RegionState::registering;
  auto call = std::make_shared<ControlCall>();
  call->apply = [this, number](ControlMessage&) -> Result<void> {
    RegionSlot& answered = regions_.at(number);
    answered.state = RegionState::registered;
    if (answered.given_up) {
      unregister_unasked(number);
    }
    return {};
  };
  call->undo = [this, number] { regions_.at(number) = RegionSlot{}; };
  auto begun = begin_call(lock, std::move(request), call, deadline);
  if (!begun) {
    if (!call->done) {  // Else the end of the session has freed the number already.
      slot = RegionSlot{};
    }
    return begun.error();
  }
  HC_FAILPOINT(client_region_announced);
  auto ended = end_call(lock, call, deadline);
  HC_FAILPOINT(client_region_registered);
  slot.given_up = !call->done;
  return ended;
}

Client::ControlRequest Client::unregister_request(std::uint32_t region) {
  RegionRequest request{};
  request.region = region;
  request.region_kind = static_cast<std::uint16_t>(RegionKind::host);
  ControlRequest out{MessageType::unregister_region, std::vector<std::uint8_t>(sizeof request)};
  std::memcpy(out.body.data(), &request, sizeof request);
  return out;
}

Client::CallPtr Client::unregister_call(std::uint32_t region) {
  auto call = std::make_shared<ControlCall>();
  call->apply = [this, region](ControlMessage&) -> Result<void> {
    regions_.at(region) = RegionSlot{};
    HC_FAILPOINT(client_region_released);
    return {};
  };
  // The daemon keeps it, so we do: another unregister may succeed. One that its owner has let go
  // of already, during a reattach, has nothing left to keep.
  call->undo = [this, region] {
    RegionSlot& slot = regions_.at(region);
    if (slot.known != nullptr) {
      slot.state = RegionState::registered;
    } else {
      slot = RegionSlot{};
    }
  };
  regions_.at(region).state = RegionState::unregistering;
  return call;
}

// For a region that nobody asks for any more; the answer frees its number.
void Client::unregister_unasked(std::uint32_t region) {
  const CallPtr call = unregister_call(region);
  const ControlRequest request = unregister_request(region);
  call->request_id = session_->next_request_id();
  if (session_->connection().send(request.type, call->request_id, request.body, {})) {
    calls_.emplace(call->request_id, call);
  } else {
    call->undo();
  }
}

Result<void> Client::unregister_region(std::uint32_t region, std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, kTimeoutBounds));
  HC_TRY_VOID(check_bounds("region", region, {0, kRegionsPerSession - 1U}));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  RegionSlot& slot = regions_.at(region);
  if (slot.state == RegionState::free) {
    return make_error(Code::bad_argument,
                      "region = " + std::to_string(region) + ": must be a registered region");
  }
  if (slot.state == RegionState::registering ||
      (session_ != nullptr && session_->ops().in_flight_of_region(region) > 0)) {
    return make_error(Code::busy, "region = " + std::to_string(region) +
                                      ": operations or calls that name it are in flight");
  }
  if (slot.state == RegionState::failed || (slot.state == RegionState::registered && !attached())) {
    slot = RegionSlot{};  // No daemon knows it, or the one that did touches it no more.
    return {};
  }
  CallPtr call;
  if (slot.state == RegionState::registered) {
    call = unregister_call(region);
    if (auto begun = begin_call(lock, unregister_request(region), call, deadline);
        !begun && !call->done) {
      call->undo();
      fail_call(*call, begun.error());  // Others wait for the state.
      return begun.error();
    }
    HC_FAILPOINT(client_unregister_asked);
  }
  const auto settled = [&slot] { return slot.state != RegionState::unregistering; };
  if (!changed_.wait_until(lock, deadline, settled)) {
    return make_error(Code::timed_out,
                      "the daemon has not let go of the region yet: its memory "
                      "may still be touched");
  }
  if (slot.state != RegionState::registered) {
    return {};
  }
  if (call != nullptr) {
    return make_error(call->code, call->text);
  }
  return make_error(Code::busy, "region = " + std::to_string(region) +
                                    ": the daemon has refused to let go of it; call again");
}

Result<void> Client::space_switch(std::string weight_version, std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, kTimeoutBounds));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  if (switch_call_ != nullptr && !switch_call_->done) {
    if (switch_target_ != weight_version) {
      return make_error(
          Code::busy, "the switch to weight version '" + *switch_target_ + "' is not answered yet");
    }
    const CallPtr call = switch_call_;
    return end_call(lock, call, deadline);
  }
  HC_TRY_VOID(check_attached());
  SpaceSwitchRequest head{};
  head.weight_version_bytes = static_cast<std::uint32_t>(weight_version.size());
  ControlRequest request{MessageType::space_switch, std::vector<std::uint8_t>(sizeof head)};
  std::memcpy(request.body.data(), &head, sizeof head);
  request.body.insert(request.body.end(), weight_version.begin(), weight_version.end());
  const std::optional<std::string> before = switch_target_;
  switch_target_ = std::move(weight_version);
  switch_call_ = std::make_shared<ControlCall>();
  const CallPtr call = switch_call_;
  call->apply = [this](ControlMessage& message) { return apply_space_switch(message); };
  // Refused, so the daemon is bound to what it was: if that was unclear before, it still is.
  call->undo = [this, before] { switch_target_ = before; };
  auto begun = begin_call(lock, std::move(request), call, deadline);
  if (!begun) {
    // Never sent, so nothing can have changed; an earlier switch may still be unconfirmed.
    fail_call(*call, begun.error());
    switch_call_.reset();
    switch_target_ = before;
    return begun.error();
  }
  return end_call(lock, call, deadline);
}

Result<void> Client::apply_space_switch(ControlMessage& message) {
  const auto* const body = message.record<SpaceSwitchReply>();
  if (!message.is(MessageType::space_switch_reply) || body == nullptr) {
    return make_error(Code::protocol, "the daemon answered the space switch with something else");
  }
  auto table = open_status_table(message, 0, body->status_table_bytes);
  HC_TRY(table);
  // The cancelled operations' completions are already in the ring. What they granted is released.
  if (session_->take_completions(ready_, kCompletionEntries, leases_) != Code::ok) {
    return make_error(Code::protocol, "the daemon sent a completion that nobody waits for");
  }
  for (std::size_t i = ready_head_; i < ready_.size(); ++i) {
    ready_[i].lease = 0;
  }
  leases_.end_all();
  session_->replace_status_table(std::make_shared<const StatusTableReader>(std::move(*table)));
  plan_.space.weight_version = *switch_target_;
  switch_target_.reset();
  return {};
}

Result<StatsReply> Client::stats(std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, kTimeoutBounds));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  HC_TRY_VOID(check_attached());
  const auto reply = std::make_shared<StatsReply>();
  auto call = std::make_shared<ControlCall>();
  call->apply = [reply](ControlMessage& message) -> Result<void> {
    const auto* const body = message.record<StatsReply>();
    if (!message.is(MessageType::stats_reply) || body == nullptr) {
      return make_error(Code::protocol, "the daemon answered stats with something else");
    }
    *reply = *body;
    return {};
  };
  call->undo = [] {};
  auto begun = begin_call(lock, ControlRequest{MessageType::stats, {}}, call, deadline);
  HC_TRY(begun);
  HC_TRY_VOID(end_call(lock, call, deadline));
  return *reply;
}

// Background thread; takes the mutex itself.
void Client::handle(ControlMessage& message) {
  if (message.is(MessageType::wake)) {
    {
      const Lock lock(mutex_);
      if (rank_copier_ != nullptr) {  // whoever waits need not be the one who copies
        attached() ? take_from_session(kCompletionEntries) : refuse_prepared();
        announce();
      }
    }
    static_cast<void>(ring_doorbell(event_fd_.get()));
    return;
  }
  const Lock lock(mutex_);
  if (message.is(MessageType::notice)) {
    const auto* const notice = message.record<Notice>();
    constexpr auto kEnded = static_cast<std::uint32_t>(NoticeKind::session_ended);
    if (notice != nullptr && notice->kind == kEnded) {
      message.body.erase(message.body.begin(), message.body.begin() + sizeof(Notice));
      last_failure_ = make_error(Code::disconnected, "the daemon said: " + message.text());
    }
    announce();
    return;
  }
  if (message.is(MessageType::arenas)) {
    if (auto added = add_arenas(message, *session_->arenas()); !added) {
      break_session(added.error().message());
    }
    return;
  }
  const auto found = calls_.find(message.header.request_id);
  if (found == calls_.end()) {
    return;  // An answer to a message that wants none, for example detach.
  }
  const CallPtr call = found->second;
  call->code = message.status();
  if (call->code == Code::ok) {
    if (auto applied = call->apply(message); !applied) {
      call->code = Code::disconnected;
      call->text = applied.error().message();
      break_session(call->text);
    }
  } else {
    call->text = message.text();
    call->undo();
  }
  call->done = true;
  // Not earlier: if applying throws, the end of the session still has to answer the call.
  calls_.erase(found);
  announce();
}

}  // namespace hc
