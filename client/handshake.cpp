// SPDX-License-Identifier: Apache-2.0
// handshake: attach, arenas, regions, in this order on one socket.
#include "client/handshake.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "shm/memory_file.h"

namespace hc {

namespace {

// Descriptors of an attach_reply, in this order.
enum ReplyFd : std::size_t { kServerFile, kDoorbell, kStatusTable, kGenerations, kDaemonPidfd };
constexpr std::size_t kReplyFds = 5;
constexpr std::uint64_t kAttachRequestId = 1;
constexpr std::uint64_t kFirstRegionRequestId = 2;

struct ClientFile {
  MemoryFile file;
  Region region;
};

Result<ClientFile> make_client_file() {
  auto file = MemoryFile::create("hicache-client", kClientFileBytes);
  HC_TRY(file);
  RegionOptions options;
  options.size_bytes = kClientFileBytes;
  options.read_only = false;
  auto region = Region::map(file->fd(), options);
  HC_TRY(region);
  auto* const header = region->writable_at<ClientHeader>(0);
  header->magic = kClientFileMagic;
  header->protocol = kProtocolVersion;
  header->fingerprint = layout_fingerprint();
  return ClientFile{std::move(*file), std::move(*region)};
}

// By the raw call: the C library of Debian 12 has no header for it that C++ can include.
Result<UniqueFd> own_pidfd() {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U)));
  if (!fd) {
    return make_error(Code::io_error, "pidfd_open of the own process", errno);
  }
  return fd;
}

std::vector<std::uint8_t> encode_attach(const AttachPlan& attach) {
  const OpenPlan& plan = attach.open;
  const std::vector<std::uint8_t> descriptor = encode_space(plan.space);
  AttachRequest request{};
  request.protocol = kProtocolVersion;
  request.fingerprint = layout_fingerprint();
  request.flags = plan.rank_copies ? kAttachWritable : 0;
  request.incarnation = plan.incarnation;
  std::copy(plan.group.begin(), plan.group.end(), request.group.begin());
  request.rank = plan.rank;
  request.world = plan.world;
  request.shards_on_node = plan.shards_on_node;
  request.tensor = plan.at.tensor;
  request.pipeline = plan.at.pipeline;
  request.context = plan.at.context;
  request.descriptor_bytes = static_cast<std::uint32_t>(descriptor.size());
  request.quota_bytes = plan.quota_bytes;
  request.previous_daemon = attach.previous_daemon;
  request.previous_session = attach.previous_session;
  request.lease_count = static_cast<std::uint32_t>(attach.leases.size());
  std::vector<std::uint8_t> body(sizeof request + descriptor.size());
  std::memcpy(body.data(), &request, sizeof request);
  std::copy(descriptor.begin(), descriptor.end(), body.data() + sizeof request);
  return body;
}

// Too many for a message: a rank may hold a lease for each page of its quota.
Result<UniqueFd> list_file(const std::vector<LeaseId>& leases) {
  const std::size_t bytes = leases.size() * sizeof(LeaseId);
  auto file = MemoryFile::create("hicache-leases", bytes);
  HC_TRY(file);
  if (::pwrite(file->fd(), leases.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return make_error(Code::io_error, "write the list of leases", errno);
  }
  return file->writable_fd();
}

// The reply to `request_id`, whatever it says; what the daemon says unasked meanwhile is not for
// an attempt.
Result<ControlMessage> await_answer(Connection& connection, const AttachPlan& plan,
                                    std::uint64_t request_id) {
  while (true) {
    auto message = connection.receive(plan.deadline, plan.stop_fd);
    HC_TRY(message);
    const bool unasked = message->is(MessageType::notice) || message->is(MessageType::wake);
    if (!unasked && message->header.request_id == request_id) {
      return message;
    }
  }
}

// The same, where another status than ok ends the attempt.
Result<ControlMessage> await_reply(Connection& connection, const AttachPlan& plan,
                                   std::uint64_t request_id) {
  auto message = await_answer(connection, plan, request_id);
  HC_TRY(message);
  if (message->status() != Code::ok) {
    return make_error(message->status(), message->text());
  }
  return message;
}

Result<void> judge_reply(const AttachReply& reply, const OpenPlan& plan) {
  if (reply.protocol != kProtocolVersion || reply.fingerprint != layout_fingerprint()) {
    return make_error(Code::refused, "the daemon speaks protocol " +
                                         std::to_string(reply.protocol) + " with layout " +
                                         std::to_string(reply.fingerprint) + ", this library " +
                                         std::to_string(kProtocolVersion) + " with layout " +
                                         std::to_string(layout_fingerprint()));
  }
  if (reply.shard != plan.shard || reply.part_count != parts_of(plan.space).size()) {
    return make_error(Code::protocol, "the daemon answered for another shard or space");
  }
  return {};
}

Result<Region> map_server_file(UniqueFd fd) {
  auto file = MemoryFile::from_fd(std::move(fd), {.size_bytes = kServerFileBytes});
  HC_TRY(file);
  RegionOptions options;
  options.size_bytes = kServerFileBytes;
  auto region = Region::map(file->fd(), options);
  HC_TRY(region);
  const auto* const header = region->at<ServerHeader>(0);
  if (header->magic != kServerFileMagic || header->protocol != kProtocolVersion ||
      header->fingerprint != layout_fingerprint()) {
    return make_error(Code::refused, "the daemon's shared file has another layout");
  }
  return region;
}

Result<void> receive_arenas(Connection& connection, const AttachPlan& plan, std::uint32_t count,
                            ArenaView& arenas) {
  while (arenas.count() < count) {
    auto message = await_reply(connection, plan, kAttachRequestId);
    HC_TRY(message);
    const std::size_t before = arenas.count();
    HC_TRY_VOID(add_arenas(*message, arenas));
    if (arenas.count() == before || arenas.count() > count) {
      return make_error(Code::protocol, "the daemon announced another number of arenas");
    }
  }
  return {};
}

// The daemon asks to come again; any other refusal would be the same the next time.
constexpr bool is_for_now(Code code) {
  return code == Code::busy || code == Code::retry || code == Code::not_ready;
}

// Regions keep their numbers, so an engine does not notice. One that is not accepted any more must
// keep neither the other regions nor the client from the daemon: it goes into `refused`.
Result<void> register_again(Connection& connection, const AttachPlan& plan,
                            std::map<std::uint32_t, std::string>& refused) {
  std::uint64_t request_id = kFirstRegionRequestId;
  for (const auto& region : plan.regions) {
    const std::uint32_t number = region->plan.request.region;
    HC_TRY_VOID(connection.send(MessageType::register_region, request_id, region->plan.encode(),
                                region->raw_fds()));
    auto answer = await_answer(connection, plan, request_id);
    HC_TRY(answer);
    const Code code = answer->status();
    if (is_for_now(code)) {
      return make_error(Code::busy, "register region " + std::to_string(number) +
                                        " again: " + make_error(code, answer->text()).message());
    }
    if (code != Code::ok) {
      refused.emplace(number, make_error(code, answer->text()).message());
    }
    ++request_id;
  }
  return {};
}

// The daemon's yes, with everything that it brings.
Result<ControlMessage> ask_to_attach(Connection& connection, const AttachPlan& plan,
                                     std::vector<int> fds) {
  UniqueFd list;
  if (!plan.leases.empty()) {
    auto made = list_file(plan.leases);
    HC_TRY(made);
    list = std::move(*made);
    fds.push_back(list.get());
  }
  HC_TRY_VOID(connection.send(MessageType::attach, kAttachRequestId, encode_attach(plan), fds));
  auto message = await_reply(connection, plan, kAttachRequestId);
  HC_TRY(message);
  if (!message->is(MessageType::attach_reply) || message->record<AttachReply>() == nullptr ||
      message->fds.size() != kReplyFds) {
    return make_error(Code::protocol, "the daemon answered the attach with something else");
  }
  return message;
}

}  // namespace

Result<StatusTableReader> open_status_table(ControlMessage& message, std::size_t fd_index,
                                            std::uint64_t size_bytes) {
  if (fd_index >= message.fds.size()) {
    return make_error(Code::protocol, "the daemon sent no status table");
  }
  return StatusTableReader::attach(std::move(message.fds[fd_index]), size_bytes);
}

Result<void> add_arenas(ControlMessage& message, ArenaView& arenas) {
  const std::size_t count = message.fds.size();
  if (!message.is(MessageType::arenas) || message.body.size() != count * sizeof(ArenaInfo)) {
    return make_error(Code::protocol, "the daemon sent arenas that do not fit their descriptors");
  }
  for (std::size_t i = 0; i < count; ++i) {
    ArenaInfo info{};
    std::memcpy(&info, message.body.data() + i * sizeof info, sizeof info);
    HC_TRY_VOID(arenas.add(info, std::move(message.fds[i])));
  }
  return {};
}

Result<Attached> attach(const AttachPlan& plan) {
  auto connection = Connection::connect(plan.open.socket_path);
  HC_TRY(connection);
  auto client_file = make_client_file();
  HC_TRY(client_file);
  auto pidfd = own_pidfd();
  HC_TRY(pidfd);
  auto message = ask_to_attach(*connection, plan, {client_file->file.fd(), pidfd->get()});
  HC_TRY(message);
  const AttachReply reply = *message->record<AttachReply>();
  HC_TRY_VOID(judge_reply(reply, plan.open));
  auto server_file = map_server_file(std::move(message->fds[kServerFile]));
  HC_TRY(server_file);
  auto table = open_status_table(*message, kStatusTable, reply.status_table_bytes);
  HC_TRY(table);
  auto generations =
      GenerationsReader::attach(std::move(message->fds[kGenerations]), reply.generation_count);
  HC_TRY(generations);
  auto arenas = std::make_shared<ArenaView>(plan.open.space, reply.generation_count);
  HC_TRY_VOID(receive_arenas(*connection, plan, reply.arena_count, *arenas));
  Attached attached;
  HC_TRY_VOID(register_again(*connection, plan, attached.refused_regions));
  attached.session = std::make_shared<Session>(SessionParts{
      std::move(*connection), reply, std::move(client_file->region), std::move(*server_file),
      std::move(message->fds[kDoorbell]), std::move(message->fds[kDaemonPidfd]),
      std::make_shared<const StatusTableReader>(std::move(*table)), std::move(*generations),
      std::move(arenas), plan.attachment,
      static_cast<std::uint32_t>(plan.open.space.kinds.size())});
  while (attached.session->next_request_id() < kFirstRegionRequestId + plan.regions.size()) {
  }
  return attached;
}

}  // namespace hc
