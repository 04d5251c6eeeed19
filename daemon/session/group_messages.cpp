// SPDX-License-Identifier: Apache-2.0
// group_messages: what the ranks of a group ask of each other through the daemon. Served also while
// the cold start is held: it has nothing to do with the store.
#include <algorithm>
#include <cstring>

#include "daemon/log/log.h"
#include "daemon/session/session_server.h"
#include "shm/control_message.h"

namespace hc {

namespace {

template <WireStruct T>
Result<T> record_of(const char* message, std::span<const std::uint8_t> body) {
  T record{};
  if (body.size() != sizeof record) {
    return make_error(Code::bad_argument, std::string(message) + ": the body has " +
                                              std::to_string(body.size()) + " bytes, must have " +
                                              std::to_string(sizeof record));
  }
  std::memcpy(&record, body.data(), sizeof record);
  return record;
}

}  // namespace

// False: the message is none of a group's, or the session is not attached.
bool SessionServer::dispatch_group(Session& session, const MessageHeader& header,
                                   std::span<const std::uint8_t> body,
                                   std::vector<UniqueFd>& fds) {
  if (session.phase != SessionPhase::attached && session.phase != SessionPhase::holding) {
    return false;
  }
  switch (static_cast<MessageType>(header.type)) {
    case MessageType::board_join: join_board(session, header, body); return true;
    case MessageType::board_watch: reply(session, header, watch_board(session, body, fds));
      return true;
    case MessageType::blackboard_post: reply(session, header, post(session, body)); return true;
    case MessageType::blackboard_get:
      if (auto asked = get(session, header, body); !asked) {
        reply(session, header, asked);
      }
      return true;
    default: return false;
  }
}

void SessionServer::join_board(Session& session, const MessageHeader& header,
                               std::span<const std::uint8_t> body) {
  const auto request = record_of<BoardRequest>("board_join", body);
  if (!request) {
    reply(session, header, request.error());
    return;
  }
  const auto place = groups_.join_board({session.group, session.rank, session.world},
                                        session.client_pidfd.get(), request->words);
  if (!place) {
    reply(session, header, place.error());
    return;
  }
  log_info("group.board", {{"group", session.group},
                           {"rank", std::uint32_t{session.rank}},
                           {"board", place->board.number}});
  send(session, header_for(MessageType::board_reply, header.request_id),
       struct_bytes(place->board), {&place->fd, 1});
}

Result<void> SessionServer::watch_board(Session& session, std::span<const std::uint8_t> body,
                                        std::vector<UniqueFd>& fds) {
  const auto board = record_of<BoardReply>("board_watch", body);
  HC_TRY(board);
  if (fds.size() != 1) {
    return make_error(Code::bad_argument, "board_watch: came with " + std::to_string(fds.size()) +
                                              " descriptors, needs the board");
  }
  return groups_.watch_board({session.group, session.rank, session.world},
                             session.client_pidfd.get(), *board, std::move(fds[0]));
}

Result<void> SessionServer::post(Session& session, std::span<const std::uint8_t> body) {
  BlackboardRequest request{};
  if (body.size() >= sizeof request) {
    std::memcpy(&request, body.data(), sizeof request);
    body = body.subspan(sizeof request);
  }
  if (body.size() != request.value_bytes) {
    return make_error(Code::bad_argument, "value_bytes = " + std::to_string(request.value_bytes) +
                                              ": does not match the message");
  }
  HC_TRY_VOID(groups_.post(session.group, request.key, body));
  answer_gets(session.group);
  return {};
}

Result<void> SessionServer::get(Session& session, const MessageHeader& header,
                                std::span<const std::uint8_t> body) {
  const auto request = record_of<BlackboardRequest>("blackboard_get", body);
  HC_TRY(request);
  // Its client has given up waiting for the oldest long ago.
  if (session.pending_gets.size() >= kBlackboardGetsMax) {
    MessageHeader oldest{};
    oldest.request_id = session.pending_gets.front().request_id;
    session.pending_gets.erase(session.pending_gets.begin());
    reply(session, oldest, make_error(Code::retry, std::to_string(kBlackboardGetsMax) +
                                                       " younger gets of this session wait"));
  }
  session.pending_gets.push_back({header.request_id, request->key});
  answer_gets(session.group);
  return {};
}

void SessionServer::answer_gets(const std::string& group) {
  for (const auto& session : sessions_) {
    if (session == nullptr || session->group != group) {
      continue;
    }
    // Sending may end the session, which forgets what it waits for.
    const std::vector<Session::PendingGet> gets = std::exchange(session->pending_gets, {});
    for (const Session::PendingGet& get : gets) {
      const auto* const value = groups_.find(group, get.key);
      if (value == nullptr) {
        session->pending_gets.push_back(get);
      } else {
        send(*session, header_for(MessageType::blackboard_reply, get.request_id), *value, {});
      }
    }
  }
}

}  // namespace hc
