// SPDX-License-Identifier: Apache-2.0
// raw_client: messages and rings by hand.
#include "e2e/raw_client.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "e2e/process.h"
#include "proto/check.h"
#include "shm/doorbell.h"
#include "shm/shared_word.h"

namespace hc::test {

namespace {

constexpr std::size_t kReplyFds = 5;

template <typename T>
void append(std::vector<std::uint8_t>& out, const T& object) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&object);
  out.insert(out.end(), bytes, bytes + sizeof object);
}

Region map_all(int fd, std::uint64_t size_bytes, bool read_only) {
  RegionOptions options;
  options.size_bytes = size_bytes;
  options.read_only = read_only;
  auto region = Region::map(fd, options);
  HC_CHECK(region.has_value());
  return std::move(*region);
}

}  // namespace

RequestEntry good_entry(Verb verb, std::uint16_t op_slot, std::uint32_t pages) {
  RequestEntry entry{};
  entry.verb = static_cast<std::uint8_t>(verb);
  entry.op_slot = op_slot;
  entry.deadline_ms = Rank::kDeadlineMs;
  entry.page_count = pages;
  if (verb == Verb::store) {
    entry.ack = static_cast<std::uint8_t>(Ack::resident);
  }
  return entry;
}

UniqueFd plain_memory_file(std::uint64_t size_bytes) {
  UniqueFd fd(::memfd_create("hicache-test", MFD_CLOEXEC));
  HC_CHECK(static_cast<bool>(fd));
  HC_CHECK(::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) == 0);
  return fd;
}

RawClient::RawClient(const RankOptions& options) : options_(options) {
  HC_CHECK(eventually([this] {
    auto connection = Connection::connect(options_.socket);
    if (connection) {
      connection_.emplace(std::move(*connection));
    }
    return connection_.has_value();
  }));
  auto file = MemoryFile::create("hicache-client", kClientFileBytes);
  HC_CHECK(file.has_value());
  file_.emplace(std::move(*file));
  file_map_.emplace(map_all(file_->fd(), kClientFileBytes, false));
  header().magic = kClientFileMagic;
  header().protocol = kProtocolVersion;
  header().fingerprint = layout_fingerprint();
}

AttachTry RawClient::make_attach() const {
  AttachTry attempt;
  attempt.descriptor = encode_space(make_space(options_));
  AttachRequest& request = attempt.request;
  request.protocol = kProtocolVersion;
  request.fingerprint = layout_fingerprint();
  request.incarnation = 1;
  std::copy(options_.group.begin(), options_.group.end(), request.group.begin());
  request.rank = options_.rank;
  request.world = options_.world;
  request.tensor = options_.rank;
  request.descriptor_bytes = static_cast<std::uint32_t>(attempt.descriptor.size());
  attempt.client_file = UniqueFd(::dup(file_->fd()));
  attempt.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U)));
  return attempt;
}

// What is sent lives until `send` has returned.
template <typename Send>
auto RawClient::with_message(AttachTry attempt, Send&& send) {
  std::vector<std::uint8_t> body;
  attempt.request.lease_count += static_cast<std::uint32_t>(attempt.leases.size());
  append(body, attempt.request);
  body.insert(body.end(), attempt.descriptor.begin(), attempt.descriptor.end());
  body.resize(std::min(body.size(), attempt.message_bytes_max));
  std::vector<int> fds{attempt.client_file.get()};
  if (attempt.send_pidfd) {
    fds.push_back(attempt.pidfd.get());
  }
  UniqueFd list;
  if (!attempt.leases.empty()) {
    const std::size_t bytes = attempt.leases.size() * sizeof(std::uint64_t);
    list = plain_memory_file(bytes);
    HC_CHECK(::pwrite(list.get(), attempt.leases.data(), bytes, 0) ==
             static_cast<ssize_t>(bytes));
    fds.push_back(list.get());
  }
  return send(body, fds);
}

Result<void> RawClient::attach(AttachTry attempt) {
  auto message = with_message(std::move(attempt), [this](const auto& body, const auto& fds) {
    return call(MessageType::attach, body, fds);
  });
  HC_TRY(message);
  HC_CHECK(message->is(MessageType::attach_reply) && message->fds.size() == kReplyFds);
  std::memcpy(&reply_, message->body.data(), sizeof reply_);
  server_map_.emplace(map_all(message->fds[0].get(), kServerFileBytes, true));
  doorbell_ = std::move(message->fds[1]);
  return {};
}

Result<void> RawClient::send_attach(AttachTry attempt) {
  return with_message(std::move(attempt), [this](const auto& body, const auto& fds) {
    return send(MessageType::attach, body, fds);
  });
}

RequestEntry& RawClient::request_at(std::uint32_t index) {
  const std::uint64_t place = index % kRingEntries * sizeof(RequestEntry);
  return *file_map_->writable_at<RequestEntry>(kRequestsOffset + place);
}

PageEntry& RawClient::page_at(std::uint16_t op_slot, std::uint32_t index) {
  return *file_map_->writable_at<PageEntry>(op_pages_offset(op_slot) + index * sizeof(PageEntry));
}

const CompletionEntry& RawClient::completion_at(std::uint32_t index) const {
  const std::uint64_t place = index % kCompletionEntries * sizeof(CompletionEntry);
  return *server_map_->at<CompletionEntry>(kCompletionsOffset + place);
}

void RawClient::push(const RequestEntry& entry) {
  request_at(tail_) = entry;
  publish_tail(++tail_);
}

void RawClient::publish_tail(std::uint32_t tail) {
  store_release(header().request_tail, tail);
  full_fence();
  ring();
}

void RawClient::ring() const { static_cast<void>(ring_doorbell(doorbell_.get())); }

bool RawClient::completions_reach(std::uint32_t count) const {
  return load_acquire(server().completion_tail) >= count;
}

std::optional<CompletionEntry> RawClient::next_completion() {
  if (!eventually([this] { return completions_reach(head_ + 1); })) {
    return std::nullopt;
  }
  const CompletionEntry entry = completion_at(head_);
  store_release(header().completion_head, ++head_);
  return entry;
}

Result<void> RawClient::register_region(std::uint32_t number, int file, std::uint64_t size_bytes,
                                        std::uint32_t rows) {
  RegionRequest request{};
  request.region = number;
  request.region_kind = static_cast<std::uint16_t>(RegionKind::host);
  request.layout_count = 1;
  request.size_bytes = size_bytes;
  request.rows = rows;
  std::vector<std::uint8_t> body;
  append(body, request);
  append(body, LayoutRequest{0, 1, 0});
  append(body, LayoutRun{0, options_.payload_bytes, options_.payload_bytes});
  auto answer = call(MessageType::register_region, body, {file});
  HC_TRY(answer);
  return {};
}

Result<void> RawClient::send(MessageType type, const std::vector<std::uint8_t>& body,
                             std::vector<int> fds) {
  return connection_->send(type, ++request_id_, body, fds);
}

Result<ControlMessage> RawClient::call(MessageType type, const std::vector<std::uint8_t>& body,
                                       std::vector<int> fds) {
  HC_TRY_VOID(send(type, body, std::move(fds)));
  while (true) {
    auto message = connection_->receive(deadline_after_ms(kPatienceMs), -1);
    HC_TRY(message);
    if (message->header.request_id != request_id_ || message->is(MessageType::notice)) {
      continue;
    }
    if (message->status() != Code::ok) {
      return make_error(message->status(), message->text());
    }
    return message;
  }
}

Result<void> RawClient::send_bytes(const std::vector<std::uint8_t>& bytes) const {
  const ssize_t sent = ::send(connection_->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(bytes.size())
             ? Result<void>()
             : make_error(Code::io_error, "send", errno);
}

std::string RawClient::await_end() {
  std::string reason;
  while (true) {
    auto message = connection_->receive(deadline_after_ms(kPatienceMs), -1);
    if (!message) {
      return message.error().code == Code::disconnected ? reason : "the connection stays open";
    }
    if (message->is(MessageType::notice)) {
      message->body.erase(message->body.begin(), message->body.begin() + sizeof(Notice));
      reason = message->text();
    }
  }
}

Code RawClient::end_code() const {
  const bool ended =
      load_acquire(server().state) == static_cast<std::uint32_t>(SessionState::ended);
  return ended ? static_cast<Code>(load_relaxed(server().end_code)) : Code::ok;
}

}  // namespace hc::test
