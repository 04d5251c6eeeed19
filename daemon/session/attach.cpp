// SPDX-License-Identifier: Apache-2.0
// attach: judges an attach request, binds the session to its space and answers with everything the
// client maps.
#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/log/log.h"
#include "daemon/os/pidfd.h"
#include "daemon/os/unix_socket.h"
#include "daemon/session/session_server.h"
#include "proto/check.h"
#include "proto/utf8.h"
#include "shm/control_message.h"

namespace hc {

namespace {

// The list of leases is there only if there is any.
enum AttachFd : std::size_t { kClientFile, kClientPidfd, kLeaseList };

std::string group_text(const AttachRequest& request) {
  const auto end = std::find(request.group.begin(), request.group.end(), '\0');
  return {request.group.begin(), end};
}

Result<void> judge_head(const AttachRequest& request) {
  if (request.protocol != kProtocolVersion || request.fingerprint != layout_fingerprint()) {
    return make_error(Code::refused,
                      "client speaks protocol " + std::to_string(request.protocol) +
                          " with layout " + std::to_string(request.fingerprint) +
                          ", this daemon protocol " + std::to_string(kProtocolVersion) +
                          " with layout " + std::to_string(layout_fingerprint()));
  }
  const std::string group = group_text(request);
  if (!is_utf8(group)) {
    return make_error(Code::bad_argument, "group is not UTF-8");
  }
  if (group.empty() || group.size() == kGroupBytesMax) {
    return make_error(Code::bad_argument, "group has " + std::to_string(group.size()) +
                                              " bytes: must be 1.." +
                                              std::to_string(kGroupBytesMax - 1));
  }
  if (request.world == 0) {
    return make_error(Code::bad_argument, "world = 0: must be at least 1");
  }
  if (request.rank >= request.world) {
    return make_error(Code::bad_argument, "rank = " + std::to_string(request.rank) +
                                              ": must be 0.." +
                                              std::to_string(request.world - 1));
  }
  if ((request.flags & ~kAttachWritable) != 0) {
    return make_error(Code::bad_argument, "flags = " + std::to_string(request.flags) +
                                              ": must be 0.." + std::to_string(kAttachWritable));
  }
  if (request.reserved != 0) {
    return make_error(Code::bad_argument, "attach: a spare field is not zero");
  }
  return {};
}

}  // namespace

void SessionServer::attach(Session& session, const MessageHeader& header,
                           std::span<const std::uint8_t> body, std::vector<UniqueFd>& fds) {
  Result<void> outcome = try_attach(session, body, fds);
  if (outcome) {
    outcome = session.phase == SessionPhase::holding
                  ? reply_holding(session, header, session.descriptor)
                  : reply_attached(session, header);
  }
  if (!outcome) {
    log_warn("session.attach_refused",
             {{"pid", session.peer.pid}, {"reason", outcome.error().message()}});
    reply(session, header, outcome);
    session.detached = true;
    end(session, outcome.error().code, "attach refused");
  }
}

// The process that the kernel names decides; only where it can't (another process namespace) does
// the descriptor that the client passed.
Result<void> SessionServer::adopt_pidfd(Session& session, UniqueFd& passed) {
  auto own = peer_pidfd(session.socket.get(), session.peer);
  if (own) {
    session.client_pidfd = std::move(*own);
    session.is_named = true;
  } else if (own.error().code != Code::not_found) {
    return own.error();
  } else if (!is_pidfd(passed.get())) {
    return make_error(Code::bad_argument, "attach: the second descriptor is no pidfd");
  } else {
    session.client_pidfd = std::move(passed);
  }
  auto added = epoll_.add(session.client_pidfd.get(), Trigger::level,
                          epoll_tag(EpollOwner::session_pidfd, session.number));
  session.pidfd_watched = added.has_value();
  return added;
}

Result<void> SessionServer::watch_doorbell(Session& session) {
  auto added = epoll_.add(session.rings->doorbell(), Trigger::edge,
                          epoll_tag(EpollOwner::session_doorbell, session.number));
  session.doorbell_watched = added.has_value();
  return added;
}

// The other sessions of the same group and rank.
std::vector<Session*> SessionServer::older_sessions(const Session& newer) {
  std::vector<Session*> older;
  for (const auto& other : sessions_) {
    const bool same = other != nullptr && other->number != newer.number &&
                      other->group == newer.group && other->rank == newer.rank &&
                      (other->rings != nullptr || other->in_engine());
    if (same) {
      older.push_back(other.get());
    }
  }
  return older;
}

// A session with a newer incarnation stays.
Result<void> SessionServer::may_supersede(const Session& newer) {
  for (const Session* other : older_sessions(newer)) {
    const bool in_service = other->phase == SessionPhase::attached ||
                            other->phase == SessionPhase::holding;
    if (in_service && newer.incarnation < other->incarnation) {
      return make_error(Code::superseded, "a newer session of group '" + newer.group + "' rank " +
                                              std::to_string(newer.rank) + " is attached");
    }
  }
  return {};
}

// Only once nothing can refuse the newer one any more.
void SessionServer::supersede(const Session& newer) {
  for (Session* other : older_sessions(newer)) {
    other->detached = true;  // its leases end as soon as nothing is in flight
    end(*other, Code::superseded, "a newer session of the same group and rank attached");
  }
}

Result<void> SessionServer::attach_to_engine(Session& session, const SpaceDescriptor& descriptor,
                                             std::uint16_t shards_on_node) {
  HC_TRY_VOID(watch_doorbell(session));  // after the attach nothing fails any more
  QuotaAsk quota{session.group, session.quota_bytes, {}};
  for (const auto& other : sessions_) {
    const bool ends = other != nullptr && other->number != session.number &&
                      other->in_engine() && other->group == session.group &&
                      (other->rank == session.rank || other->phase == SessionPhase::ended);
    if (ends) {
      quota.replaced.push_back(other->engine_id);
    }
  }
  auto attached = engine_->attach({descriptor, shards_on_node, session.shard, quota});
  if (!attached) {
    if (engine_->core().sessions.open_count() >= options_.sessions_max) {
      supersede(session);  // its own predecessor may be what fills the table
    }
    return attached.error();
  }
  session.engine_id = attached->session;
  session.space = attached->space;
  session.quota_bytes = attached->quota_bytes;
  session.phase = SessionPhase::attached;
  return {};
}

Result<void> SessionServer::try_attach(Session& session, std::span<const std::uint8_t> body,
                                       std::vector<UniqueFd>& fds) {
  AttachRequest request{};
  if (body.size() < sizeof request || fds.size() < kLeaseList) {
    return make_error(Code::bad_argument, "attach: message or descriptors are missing");
  }
  std::memcpy(&request, body.data(), sizeof request);
  HC_TRY_VOID(judge_head(request));
  if (fds.size() != kLeaseList + (request.lease_count > 0 ? 1U : 0U)) {
    return make_error(Code::bad_argument, "attach: came with " + std::to_string(fds.size()) +
                                              " descriptors");
  }
  body = body.subspan(sizeof request);
  if (body.size() != request.descriptor_bytes || body.size() > kDescriptorBytesMax) {
    return make_error(Code::bad_argument, "descriptor_bytes = " +
                                              std::to_string(request.descriptor_bytes) +
                                              ": does not match the message");
  }
  auto descriptor = decode_space(body);
  HC_TRY(descriptor);
  descriptor->tenant = options_.tenant;
  auto shard = shard_of(descriptor->world,
                        {request.tensor, request.pipeline, request.context});
  HC_TRY(shard);
  session.group = group_text(request);
  session.rank = request.rank;
  session.world = request.world;
  session.shard = *shard;
  session.incarnation = request.incarnation;
  session.quota_bytes = request.quota_bytes;
  session.writes_frames = (request.flags & kAttachWritable) != 0 && options_.rank_copies;
  HC_TRY_VOID(may_supersede(session));
  HC_TRY_VOID(adopt_pidfd(session, fds[kClientPidfd]));
  if (!is_memory_file(fds[kClientFile].get())) {
    return make_error(Code::refused, "attach: the first descriptor is no memory file");
  }
  auto rings = SessionRings::create(std::move(fds[kClientFile]));
  HC_TRY(rings);
  session.rings = std::move(*rings);
  auto brought = brought_leases(session, request, {fds.begin() + kLeaseList, fds.end()});
  HC_TRY(brought);
  if (engine_->state() == EngineState::serving) {
    if (auto done = attach_to_engine(session, *descriptor, request.shards_on_node); !done) {
      give_up(*brought, done.error().code);
      return done;
    }
    take_over(session, *brought);
  } else {
    session.descriptor = *descriptor;
    session.phase = SessionPhase::holding;
  }
  groups_.session_opened(session.group);
  session.in_group = true;
  supersede(session);
  return {};
}

void SessionServer::fill_reply(const Session& session, AttachReply& reply) const {
  reply.protocol = kProtocolVersion;
  reply.session = session.number;
  reply.fingerprint = layout_fingerprint();
  reply.daemon_instance = daemon_instance_;
  reply.shard = session.shard;
  reply.session_serial = session.serial;
  reply.leases_kept = session.leases_kept ? 1 : 0;
}

Result<void> SessionServer::reply_attached(Session& session, const MessageHeader& request) {
  Core& core = engine_->core();
  Family& family = core.family_of(session.space);
  const Space& space = core.spaces->space(session.space);
  AttachReply body{};
  fill_reply(session, body);
  body.store_uuid = core.superblock->current().store_uuid;
  body.space = space.id;
  body.family = family.id;
  body.part_count = static_cast<std::uint16_t>(family.parts.size());
  body.quota_bytes = session.quota_bytes;
  body.arena_count = static_cast<std::uint32_t>(family.arenas->arenas().size());
  body.status_table_bytes = space.status->size_bytes();
  body.generation_count = family.arenas->generations().count();
  auto server = session.rings->server_file_for_client();
  HC_TRY(server);
  auto status = space.status->readonly_fd();
  HC_TRY(status);
  auto generations = family.arenas->generations().readonly_fd();
  HC_TRY(generations);
  const std::array<int, 5> fds{server->get(), session.rings->doorbell(), status->get(),
                               generations->get(), daemon_pidfd_.get()};
  store_release(session.rings->server_header().state,
                static_cast<std::uint32_t>(SessionState::serving));
  send(session, header_for(MessageType::attach_reply, request.request_id), struct_bytes(body),
       fds);
  send_arenas(session, request);
  log_info("session.attached", {{"session", session.number},
                                {"pid", session.peer.pid},
                                {"group", session.group},
                                {"rank", std::uint32_t{session.rank}},
                                {"shard", std::uint32_t{session.shard}}});
  return {};
}

void SessionServer::send_arenas(Session& session, const MessageHeader& request) {
  const auto& arenas = engine_->core().family_of(session.space).arenas->arenas();
  for (std::size_t first = 0; first < arenas.size(); first += kMessageFdsMax) {
    const std::size_t count = std::min<std::size_t>(kMessageFdsMax, arenas.size() - first);
    std::vector<ArenaInfo> infos;
    std::vector<UniqueFd> files;
    std::vector<int> fds;
    for (std::size_t i = first; i < first + count; ++i) {
      auto file = session.writes_frames ? arenas[i].file.writable_fd()
                                        : arenas[i].file.readonly_fd();
      if (!file) {
        end(session, file.error().code, file.error().message());
        return;
      }
      infos.push_back(arenas[i].info);
      fds.push_back(file->get());
      files.push_back(std::move(*file));
    }
    send(session, header_for(MessageType::arenas, request.request_id),
         {reinterpret_cast<const std::uint8_t*>(infos.data()), infos.size() * sizeof(ArenaInfo)},
         fds);
  }
}

// In hold nothing of the store is known: an empty table, no arenas.
Result<void> SessionServer::reply_holding(Session& session, const MessageHeader& request,
                                          const SpaceDescriptor& descriptor) {
  AttachReply body{};
  fill_reply(session, body);
  body.space = make_space_id(descriptor);
  body.family = make_family_id(descriptor);
  body.part_count = static_cast<std::uint16_t>(parts_of(descriptor).size());
  StatusTableOptions options;
  options.capacity = status_capacity_for(1);
  options.space = body.space;
  auto status = StatusTableWriter::create(options);
  HC_TRY(status);
  auto generations = GenerationsWriter::create(1);
  HC_TRY(generations);
  body.status_table_bytes = status->size_bytes();
  body.generation_count = generations->count();
  auto server = session.rings->server_file_for_client();
  HC_TRY(server);
  auto status_fd = status->readonly_fd();
  HC_TRY(status_fd);
  auto generations_fd = generations->readonly_fd();
  HC_TRY(generations_fd);
  const std::array<int, 5> fds{server->get(), session.rings->doorbell(), status_fd->get(),
                               generations_fd->get(), daemon_pidfd_.get()};
  store_release(session.rings->server_header().state,
                static_cast<std::uint32_t>(SessionState::holding));
  send(session, header_for(MessageType::attach_reply, request.request_id), struct_bytes(body),
       fds);
  return watch_doorbell(session);
}

}  // namespace hc
