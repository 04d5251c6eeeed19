// SPDX-License-Identifier: Apache-2.0
// fake_daemon: see the header; every method takes the mutex, the thread too.
#include "unit/client/fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>

#include "proto/check.h"
#include "shm/doorbell.h"
#include "shm/socket_message.h"
#include "unit/client/fake_live.h"

namespace hc::test {

namespace {

constexpr auto kRankRegion = static_cast<std::uint16_t>(RegionKind::rank);

}  // namespace

StandIn::StandIn() : pid_(::fork()) {
  if (pid_ == 0) {
    // It must hold no socket of the test open, and must not outlive it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    while (true) {
      ::pause();
    }
  }
  HC_CHECK(pid_ > 0);
}

void StandIn::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

UniqueFd StandIn::pidfd() const {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0U)));
  HC_CHECK(fd.valid());
  return fd;
}

std::unique_ptr<FakeDaemon::Live> FakeDaemon::make_live(std::span<const std::uint8_t> body,
                                                        UniqueFd client_fd) {
  AttachRequest request{};
  HC_CHECK(body.size() >= sizeof request);
  std::memcpy(&request, body.data(), sizeof request);
  SpaceDescriptor space = must(decode_space(body.subspan(sizeof request)));
  auto client = must(MemoryFile::from_fd(std::move(client_fd), {.size_bytes = kClientFileBytes}));
  auto server = must(MemoryFile::create("fake-server", kServerFileBytes));
  RegionOptions map;
  map.size_bytes = kClientFileBytes;
  auto client_region = must(Region::map(client.fd(), map));
  map.size_bytes = kServerFileBytes;
  map.read_only = false;
  auto server_region = must(Region::map(server.fd(), map));
  StatusTableOptions table;
  table.capacity = 256;
  table.space = make_space_id(space);
  std::unique_ptr<Live> live(new Live{request,
                                      std::move(space),
                                      std::move(client_region),
                                      std::move(server),
                                      std::move(server_region),
                                      must(make_doorbell()),
                                      must(StatusTableWriter::create(table)),
                                      must(GenerationsWriter::create(kFakeFrames * kKindsMax)),
                                      {},
                                      {},
                                      {},
                                      {},
                                      {},
                                      {},
                                      {}});
  ServerHeader* const header = live->server();
  header->magic = kServerFileMagic;
  header->protocol = kProtocolVersion;
  header->fingerprint = layout_fingerprint();
  live->requests.emplace(live->client_file.bytes().subspan(kRequestsOffset), header->request_head,
                         live->client()->request_tail);
  live->completions.emplace(live->server_file.writable_bytes().subspan(kCompletionsOffset),
                            header->completion_tail, live->client()->completion_head);
  for (std::size_t kind = 0; kind < live->space.kinds.size(); ++kind) {
    const std::uint32_t payload = live->space.kinds[kind].payload_bytes;
    const std::uint32_t frame_bytes = (payload + 2 * kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    map.size_bytes = std::uint64_t{frame_bytes} * kFakeFrames;
    live->arena_memory.push_back(must(MemoryFile::create("fake-arena", map.size_bytes)));
    live->arenas.push_back(must(Region::map(live->arena_memory.back().fd(), map)));
    live->infos.push_back(
        {static_cast<std::uint16_t>(kind), 0, 0, kFakeFrames, frame_bytes, kind * kFakeFrames});
  }
  return live;
}

FakeDaemon::FakeDaemon(std::filesystem::path socket_path, FakeOptions options)
    : path_(std::move(socket_path)),
      options_(std::move(options)),
      stand_in_(std::make_unique<StandIn>()) {
  instance_[0] = 1;
  listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  ::unlink(path_.c_str());
  HC_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  HC_CHECK(::listen(listener_.get(), 8) == 0);
  wake_ = must(make_doorbell());
  thread_ = std::thread([this] { run(); });
}

FakeDaemon::~FakeDaemon() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake_thread();
  }
  thread_.join();
  ::unlink(path_.c_str());
}

void FakeDaemon::wake_thread() {
  HC_CHECK(ring_doorbell(wake_.get()) == Code::ok);
}

void FakeDaemon::run() {
  while (true) {
    std::array<pollfd, 3> ready{};
    {
      const std::lock_guard lock(mutex_);
      if (stop_) {
        return;
      }
      const int client = options_.read_calls && !sending_ended_ ? client_.get() : -1;
      ready = {{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}, {client, POLLIN, 0}}};
    }
    static_cast<void>(::poll(ready.data(), ready.size(), -1));
    const std::lock_guard lock(mutex_);
    if (ready[0].revents != 0) {
      std::uint64_t count = 0;
      HC_CHECK(::read(wake_.get(), &count, sizeof count) == sizeof count);
      continue;  // Descriptors may have changed.
    }
    if (ready[2].revents != 0 && client_.get() == ready[2].fd) {
      serve_client();
    } else if (ready[1].revents != 0 && listener_.valid()) {
      accept_client();
    }
  }
}

void FakeDaemon::accept_client() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) {
    client_ = std::move(fd);
    sending_ended_ = false;
  }
}

void FakeDaemon::serve_client() {
  std::vector<std::uint8_t> buffer(kMessageBytesMax);
  auto received = receive_message(client_.get(), buffer, SocketWait::none);
  if (!received) {
    if (received.error().code != Code::busy) {
      end_of_sending();
    }
    return;
  }
  MessageHeader header{};
  HC_CHECK(received->size_bytes >= sizeof header);
  std::memcpy(&header, buffer.data(), sizeof header);
  HC_CHECK(header.magic == kMessageMagic && header.bytes == received->size_bytes);
  HC_CHECK(header.fd_count == received->fds.size());
  const std::span<const std::uint8_t> body(buffer.data() + sizeof header,
                                           received->size_bytes - sizeof header);
  if (header.type == static_cast<std::uint16_t>(MessageType::attach)) {
    attach_client(body, std::move(received->fds), header.request_id);
  } else {
    answer_call(header, body, std::move(received->fds));
  }
}

void FakeDaemon::end_of_sending() {
  sending_ended_ = true;
  changed_.notify_all();
  if (!options_.answer_detach) {
    return;
  }
  if (live_ != nullptr) {
    store_release(live().server()->state, static_cast<std::uint32_t>(SessionState::ended));
  }
  client_.reset();
}

void FakeDaemon::refuse(std::uint64_t request_id, Code code) {
  send(MessageType::reply, request_id, code, bytes_of(options_.refusal), {});
  ++refused_;
  changed_.notify_all();
}

void FakeDaemon::send(MessageType type, std::uint64_t request_id, Code status,
                      std::span<const std::uint8_t> body, std::span<const int> fds) {
  MessageHeader header{};
  header.magic = kMessageMagic;
  header.type = static_cast<std::uint16_t>(type);
  header.fd_count = static_cast<std::uint16_t>(fds.size());
  header.bytes = static_cast<std::uint32_t>(sizeof header + body.size());
  header.status = static_cast<std::int32_t>(status);
  header.request_id = request_id;
  std::vector<std::uint8_t> message(header.bytes);
  std::memcpy(message.data(), &header, sizeof header);
  if (!body.empty()) {
    std::memcpy(message.data() + sizeof header, body.data(), body.size());
  }
  // A client that has gone is no failure of the daemon.
  static_cast<void>(send_message(client_.get(), message, fds, SocketWait::none).has_value());
}

void FakeDaemon::attach_client(std::span<const std::uint8_t> body, std::vector<UniqueFd> fds,
                               std::uint64_t request_id) {
  if (options_.refuse_attach != Code::ok) {
    send(MessageType::attach_reply, request_id, options_.refuse_attach, bytes_of(options_.refusal),
         {});
    client_.reset();
    return;
  }
  HC_CHECK(fds.size() == 2 || fds.size() == 3);
  live_ = make_live(body, std::move(fds[0]));
  live_->leases.resize(live_->request.lease_count);
  if (fds.size() == 3) {
    const std::size_t bytes = live_->leases.size() * sizeof(LeaseId);
    HC_CHECK(::pread(fds[2].get(), live_->leases.data(), bytes, 0) ==
             static_cast<ssize_t>(bytes));
  }
  store_release(live_->server()->state, static_cast<std::uint32_t>(options_.state));
  send_attach_reply(request_id);
  // One message per arena, so that a client that takes only the first is found out.
  for (std::size_t i = 0; i < live_->infos.size() && options_.arenas_at_all; ++i) {
    const int fd = live_->arena_memory[i].fd();
    send(MessageType::arenas, request_id, Code::ok, bytes_of(live_->infos[i]), {&fd, 1});
  }
  ++attaches_;
  changed_.notify_all();
}

void FakeDaemon::send_attach_reply(std::uint64_t request_id) {
  Live& live = *live_;
  AttachReply reply{};
  reply.protocol = options_.reply_protocol;
  reply.fingerprint = options_.reply_fingerprint;
  reply.daemon_instance = instance_;
  reply.space = make_space_id(live.space);
  const ShardCoordinates at{live.request.tensor, live.request.pipeline, live.request.context};
  reply.shard =
      static_cast<std::uint16_t>(must(shard_of(live.space.world, at)) + options_.shard_offset);
  reply.part_count = static_cast<std::uint16_t>(parts_of(live.space).size());
  reply.arena_count = options_.arenas_at_all ? static_cast<std::uint32_t>(live.infos.size()) +
                                                   options_.arena_count_offset
                                             : 0;
  reply.status_table_bytes = live.table.size_bytes();
  reply.generation_count = live.generations.count();
  reply.session_serial = 100 + attaches_;
  reply.leases_kept = options_.keep_leases ? 1 : 0;
  const UniqueFd server_fd = must(live.server_memory.readonly_fd());
  const UniqueFd table_fd = must(live.table.readonly_fd());
  const UniqueFd generations_fd = must(live.generations.readonly_fd());
  const UniqueFd pidfd = stand_in_->pidfd();
  const std::array<int, 5> fds{server_fd.get(), live.doorbell.get(), table_fd.get(),
                               generations_fd.get(), pidfd.get()};
  send(MessageType::attach_reply, request_id, Code::ok, bytes_of(reply), fds);
}

void FakeDaemon::answer_call(const MessageHeader& header, std::span<const std::uint8_t> body,
                             std::vector<UniqueFd> fds) {
  const auto type = static_cast<MessageType>(header.type);
  if (type == MessageType::detach || type == MessageType::leave) {
    leaves_ += type == MessageType::leave ? 1U : 0U;
    if (options_.answer_detach) {
      send(MessageType::reply, header.request_id, Code::ok, {}, {});
      store_release(live().server()->state, static_cast<std::uint32_t>(SessionState::ended));
      close_client();
    }
    ++detaches_;
    changed_.notify_all();
    return;
  }
  if (!options_.answer_calls) {
    held_.push_back({header, {body.begin(), body.end()}, std::move(fds)});
    changed_.notify_all();
    return;
  }
  if (options_.call_code != Code::ok) {
    refuse(header.request_id, options_.call_code);
    return;
  }
  if (options_.unregister_code != Code::ok && type == MessageType::unregister_region) {
    refuse(header.request_id, options_.unregister_code);
    return;
  }
  RegionRequest region{};
  if (body.size() >= sizeof region &&
      (type == MessageType::register_region || type == MessageType::unregister_region)) {
    std::memcpy(&region, body.data(), sizeof region);
  }
  if (type == MessageType::space_switch) {
    answer_switch(header.request_id, body);
    return;
  }
  if (type == MessageType::stats) {
    StatsReply stats{};
    stats.pages = 11;
    stats.commits = 22;
    send(MessageType::stats_reply, header.request_id, Code::ok, bytes_of(stats), {});
    return;
  }
  if (type == MessageType::register_region) {
    // Memory that its client copies itself has no file.
    HC_CHECK(fds.size() == (region.region_kind == kRankRegion ? 0U : 1U));
    live().regions.insert_or_assign(
        region.region, std::pair(region, fds.empty() ? UniqueFd() : std::move(fds[0])));
  } else if (type == MessageType::unregister_region) {
    live().regions.erase(region.region);
  }
  send(MessageType::reply, header.request_id, Code::ok, {}, {});
  changed_.notify_all();
}

void FakeDaemon::answer_switch(std::uint64_t request_id, std::span<const std::uint8_t> body) {
  SpaceSwitchRequest request{};
  std::memcpy(&request, body.data(), sizeof request);
  live().space.weight_version.assign(reinterpret_cast<const char*>(body.data() + sizeof request),
                                     request.weight_version_bytes);
  StatusTableOptions table;
  table.capacity = 64;
  table.space = make_space_id(live().space);
  live().table = must(StatusTableWriter::create(table));
  SpaceSwitchReply reply{};
  reply.space = table.space;
  reply.status_table_bytes = live().table.size_bytes();
  const UniqueFd fd = must(live().table.readonly_fd());
  const int number = fd.get();
  send(MessageType::space_switch_reply, request_id, Code::ok, bytes_of(reply), {&number, 1});
}

void FakeDaemon::close_client() {
  client_.reset();
  wake_thread();
}

}  // namespace hc::test
