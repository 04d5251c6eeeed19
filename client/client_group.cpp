// SPDX-License-Identifier: Apache-2.0
// client_group: the board and the posted values of this rank's group.
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "client/argument_error.h"
#include "client/client.h"
#include "shm/control_message.h"

namespace hc {

namespace {

constexpr Bounds kGroupTimeoutBounds{1, kDeadlineMsMax};

std::vector<std::uint8_t> body_of(std::span<const std::uint8_t> record) {
  return {record.begin(), record.end()};
}

Error answered_wrongly(const char* what) {
  return make_error(Code::protocol, std::string("the daemon answered ") + what +
                                        " with something else");
}

}  // namespace

Client::Ground Client::ground() {
  const Lock lock(mutex_);
  return {check_data(false).has_value(), leases_.ends()};
}

Result<Client::JoinedBoard> Client::join_board(std::uint32_t words, std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, kGroupTimeoutBounds));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  HC_TRY_VOID(check_attached());
  BoardRequest request{};
  request.words = words;
  const auto joined = std::make_shared<JoinedBoard>();
  auto call = std::make_shared<ControlCall>();
  call->apply = [joined](ControlMessage& message) -> Result<void> {
    const auto* const body = message.record<BoardReply>();
    if (!message.is(MessageType::board_reply) || body == nullptr || message.fds.size() != 1) {
      return answered_wrongly("board_join");
    }
    joined->board = *body;
    joined->fd = std::move(message.fds[0]);
    return {};
  };
  call->undo = [] {};
  auto begun = begin_call(lock, ControlRequest{MessageType::board_join,
                                               body_of(struct_bytes(request))},
                          call, deadline);
  HC_TRY(begun);
  HC_TRY_VOID(end_call(lock, call, deadline));
  UniqueFd copy(::fcntl(joined->fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    return make_error(Code::io_error, "duplicate the board's descriptor", errno);
  }
  board_ = JoinedBoard{std::move(copy), joined->board};
  return std::move(*joined);
}

void Client::forget_board() {
  const Lock lock(mutex_);
  board_.reset();
}

// Under the mutex, at each attachment: the daemon may know nothing of the board. Nobody waits for
// the answer: where it is no, the others see this rank as gone, and the group joins anew.
void Client::watch_board_again() {
  if (board_) {
    const int fd = board_->fd.get();
    static_cast<void>(session_->connection().send(MessageType::board_watch,
                                                  session_->next_request_id(),
                                                  struct_bytes(board_->board), {&fd, 1}));
  }
}

Result<void> Client::post(std::uint32_t key, std::span<const std::uint8_t> value,
                          std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, kGroupTimeoutBounds));
  HC_TRY_VOID(check_bounds("value_bytes", value.size(), {1, kBlackboardBytesMax}));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  HC_TRY_VOID(check_attached());
  const BlackboardRequest head{key, static_cast<std::uint32_t>(value.size())};
  ControlRequest request{MessageType::blackboard_post, body_of(struct_bytes(head))};
  request.body.insert(request.body.end(), value.begin(), value.end());
  auto call = std::make_shared<ControlCall>();
  call->apply = [](ControlMessage&) -> Result<void> { return {}; };
  call->undo = [] {};
  auto begun = begin_call(lock, std::move(request), call, deadline);
  HC_TRY(begun);
  return end_call(lock, call, deadline);
}

Result<std::vector<std::uint8_t>> Client::get(std::uint32_t key, std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, kGroupTimeoutBounds));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  Lock lock(mutex_);
  HC_TRY_VOID(check_attached());
  const BlackboardRequest head{key, 0};
  const auto value = std::make_shared<std::vector<std::uint8_t>>();
  auto call = std::make_shared<ControlCall>();
  call->apply = [value](ControlMessage& message) -> Result<void> {
    if (!message.is(MessageType::blackboard_reply)) {
      return answered_wrongly("blackboard_get");
    }
    value->assign(message.body.begin(), message.body.end());
    return {};
  };
  call->undo = [] {};
  auto begun = begin_call(lock, ControlRequest{MessageType::blackboard_get,
                                               body_of(struct_bytes(head))},
                          call, deadline);
  HC_TRY(begun);
  auto ended = end_call(lock, call, deadline);
  if (!ended && ended.error().code == Code::timed_out) {
    return make_error(Code::timed_out, "key = " + std::to_string(key) +
                                           ": no rank of the group has posted it in time");
  }
  HC_TRY_VOID(ended);
  return std::move(*value);
}

}  // namespace hc
