// SPDX-License-Identifier: Apache-2.0
// control: messages of an attached client: regions, space switch, stats, detach.
#include <cstring>

#include "daemon/log/log.h"
#include "daemon/session/session_server.h"
#include "proto/check.h"
#include "shm/control_message.h"
#include "shm/socket_message.h"

namespace hc {

namespace {

Result<void> check_region_file(const RegionBody& body, const std::vector<UniqueFd>& fds) {
  if (fds.size() != body.fd_count()) {
    const bool is_host = !body.is_cuda() && !body.is_rank();
    const std::string needs = is_host               ? "one memory file"
                              : body.fd_count() == 0 ? "none"
                                                     : std::to_string(body.fd_count()) +
                                                           ", one for each chunk";
    return make_error(Code::bad_argument, "register_region: came with " +
                                              std::to_string(fds.size()) +
                                              " descriptors, needs " + needs);
  }
  return {};
}

}  // namespace

// A client that does not read its socket fills it; it is cut off rather than waited for. A wake
// that does not fit is dropped: the socket is readable anyway. One that has gone may have said
// goodbye before: the reading of its socket tells, and ends the session.
void SessionServer::send(Session& session, const MessageHeader& header,
                         std::span<const std::uint8_t> body, std::span<const int> fds) {
  if (session.socket_closed || !session.socket) {
    return;
  }
  const auto sent = send_message(session.socket.get(), message_bytes(header, body, fds.size()),
                                 fds, SocketWait::none);
  const bool wake = header.type == static_cast<std::uint16_t>(MessageType::wake);
  const bool gone = !sent && sent.error().code == Code::disconnected;
  if (!sent && !gone && !(wake && sent.error().code == Code::busy)) {
    session.socket_closed = true;
    epoll_.remove(session.socket.get());
    end(session, Code::disconnected, "its control socket does not take messages: " +
                                         sent.error().message());
  }
}

void SessionServer::reply(Session& session, const MessageHeader& request,
                          const Result<void>& outcome) {
  MessageHeader header = header_for(MessageType::reply, request.request_id);
  if (outcome) {
    send(session, header, {}, {});
    return;
  }
  header.status = static_cast<std::int32_t>(outcome.error().code);
  send(session, header, text_bytes(outcome.error().message()), {});
}

void SessionServer::dispatch(Session& session, const MessageHeader& header,
                             std::span<const std::uint8_t> body, std::vector<UniqueFd>& fds) {
  const auto type = static_cast<MessageType>(header.type);
  if (type == MessageType::attach && session.phase == SessionPhase::connected) {
    attach(session, header, body, fds);
    return;
  }
  if (type == MessageType::detach || type == MessageType::leave) {
    part(session, type == MessageType::leave);
    return;
  }
  if (dispatch_group(session, header, body, fds)) {
    return;
  }
  if (session.phase == SessionPhase::holding) {
    // Regions are registered again when the client attaches to the serving daemon.
    if (type == MessageType::register_region) {
      reply(session, header, try_region(session.descriptor, body, fds));
    } else if (type == MessageType::unregister_region) {
      reply(session, header, {});
    } else {
      reply(session, header, not_serving(engine_->state()));
    }
    return;
  }
  if (session.phase != SessionPhase::attached) {
    reply(session, header, make_error(Code::refused, "message type " +
                                                         std::to_string(header.type) +
                                                         " needs an attached session"));
    return;
  }
  if (type == MessageType::register_region) {
    register_region(session, header, body, fds);
  } else if (type == MessageType::unregister_region) {
    unregister_region(session, header, body);
  } else if (type == MessageType::space_switch) {
    start_switch(session, header, body);
  } else if (type == MessageType::stats) {
    reply_stats(session, header);
  } else {
    reply(session, header, make_error(Code::unsupported, "message type " +
                                                             std::to_string(header.type) +
                                                             " is not served"));
  }
}

// The client ends the session. One that comes back stays a rank of its group, and has its leases
// kept for its next session.
void SessionServer::part(Session& session, bool comes_back) {
  session.hands_off = true;
  if (comes_back) {
    end(session, Code::disconnected, "its client gave it up");
    return;
  }
  if (session.phase == SessionPhase::attached || session.phase == SessionPhase::holding) {
    groups_.leave({session.group, session.rank, session.world});
  }
  session.detached = true;
  end(session, Code::cancelled, "detached");
}

// In hold: judged and mapped, so that what is refused later is refused now, and dropped.
Result<void> SessionServer::try_region(const SpaceDescriptor& space,
                                       std::span<const std::uint8_t> body,
                                       std::vector<UniqueFd>& fds) {
  auto parsed = parse_region(body);
  HC_TRY(parsed);
  HC_TRY_VOID(check_region_file(*parsed, fds));
  HC_TRY_VOID(judge_region(*parsed, space));
  if (parsed->is_cuda()) {
    return check_devices();
  }
  if (parsed->is_rank()) {
    return {};  // whether its arenas will be writable is seen when it attaches to them
  }
  auto mapped = map_region(parsed->request, fds[0]);
  HC_TRY(mapped);
  regions_.dispose(std::make_shared<ClientRegion>(std::move(*mapped)));
  return {};
}

void SessionServer::register_region(Session& session, const MessageHeader& header,
                                    std::span<const std::uint8_t> body,
                                    std::vector<UniqueFd>& fds) {
  auto parsed = parse_region(body);
  if (!parsed) {
    reply(session, header, parsed.error());
    return;
  }
  const std::uint32_t number = parsed->request.region;
  EngineSession* engine_session = engine_->core().sessions.find(session.engine_id);
  HC_CHECK(engine_session != nullptr);
  if (auto sound = check_region_file(*parsed, fds); !sound) {
    reply(session, header, sound);
    return;
  }
  if (auto is_free = check_region_is_free(session, number); !is_free) {
    reply(session, header, is_free);
    return;
  }
  auto region = judge_region(*parsed, engine_->core().family_of(session.space).descriptor);
  if (!region) {
    reply(session, header, region.error());
    return;
  }
  if (parsed->is_cuda()) {
    if (auto begun = open_region(session, header, *parsed, std::move(*region), fds); !begun) {
      reply(session, header, begun);
    }
    return;  // answered when it is open
  }
  if (parsed->is_rank()) {
    reply(session, header, take_rank_region(session, *parsed, std::move(*region)));
    return;
  }
  auto mapped = map_region(parsed->request, fds[0]);
  if (!mapped) {
    reply(session, header, mapped.error());
    return;
  }
  region->base = reinterpret_cast<std::uintptr_t>(mapped->map->writable_bytes().data());
  engine_session->regions[number] = std::move(*region);
  session.regions[number].emplace(std::move(*mapped));
  ++engine_->core().counters.regions_registered;
  reply(session, header, {});
}

void SessionServer::unregister_region(Session& session, const MessageHeader& header,
                                      std::span<const std::uint8_t> body) {
  RegionRequest request{};
  if (body.size() == sizeof request) {
    std::memcpy(&request, body.data(), sizeof request);
  }
  EngineSession* engine_session = engine_->core().sessions.find(session.engine_id);
  HC_CHECK(engine_session != nullptr);
  const bool known = body.size() == sizeof request && request.region < kRegionsPerSession &&
                     engine_session->regions[request.region].present;
  if (!known) {
    reply(session, header, make_error(Code::not_found, "region = " +
                                                           std::to_string(request.region) +
                                                           " is not registered"));
    return;
  }
  EngineRegion& region = engine_session->regions[request.region];
  if (region.users > 0) {
    reply(session, header, make_error(Code::busy, "region = " + std::to_string(request.region) +
                                                      ": " + std::to_string(region.users) +
                                                      " operations name it"));
    return;
  }
  if (region.mapping != kHostMapping) {
    // Answered when the device has let go of it: before that its owner must not free it.
    session.pending_ends.push_back({header.request_id, request.region});
    drop_region(session, request.region, region_ticket(session, request.region));
    return;
  }
  drop_region(session, request.region, 0);
  reply(session, header, {});
}

void SessionServer::start_switch(Session& session, const MessageHeader& header,
                                 std::span<const std::uint8_t> body) {
  SpaceSwitchRequest request{};
  if (body.size() >= sizeof request) {
    std::memcpy(&request, body.data(), sizeof request);
    body = body.subspan(sizeof request);
  }
  if (body.size() != request.weight_version_bytes || body.size() > kNameBytesMax) {
    reply(session, header,
          make_error(Code::bad_argument, "weight_version has " + std::to_string(body.size()) +
                                             " bytes: must be 0.." +
                                             std::to_string(kNameBytesMax)));
    return;
  }
  if (session.pending_switch) {
    reply(session, header, make_error(Code::busy, "another space_switch of this session runs"));
    return;
  }
  const auto* text = reinterpret_cast<const char*>(body.data());
  session.pending_switch = Session::PendingSwitch{header.request_id, {text, body.size()}};
  engine_->begin_switch(session.engine_id);
}

void SessionServer::finish_switch(Session& session) {
  MessageHeader request{};
  request.request_id = session.pending_switch->request_id;
  auto space = engine_->switch_space(session.engine_id, session.pending_switch->weight_version);
  session.pending_switch.reset();
  if (!space) {
    engine_->stay(session.engine_id);
    reply(session, request, space.error());
    return;
  }
  session.space = *space;
  const Space& bound = engine_->core().spaces->space(*space);
  auto table = bound.status->readonly_fd();
  if (!table) {
    end(session, table.error().code, table.error().message());
    return;
  }
  publish_now(session);  // cancelled operations come before the answer
  SpaceSwitchReply body{};
  body.space = bound.id;
  body.status_table_bytes = bound.status->size_bytes();
  const int fd = table->get();
  send(session, header_for(MessageType::space_switch_reply, request.request_id),
       struct_bytes(body), {&fd, 1});
}

void SessionServer::reply_stats(Session& session, const MessageHeader& header) {
  const StatsReply stats = engine_->stats();
  send(session, header_for(MessageType::stats_reply, header.request_id), struct_bytes(stats), {});
}

}  // namespace hc
