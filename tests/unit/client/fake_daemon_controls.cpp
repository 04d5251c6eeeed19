// SPDX-License-Identifier: Apache-2.0
// fake_daemon_controls: what a test says to the fake daemon and asks of it.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "shm/doorbell.h"
#include "shm/socket_message.h"
#include "unit/client/fake_daemon.h"
#include "unit/client/fake_live.h"

namespace hc::test {

namespace {

// Ends a test that would hang; nothing waits this long when all is well.
constexpr auto kPatience = std::chrono::seconds(30);

}  // namespace

FakeDaemon::Live& FakeDaemon::live() {
  HC_CHECK(live_ != nullptr);
  return *live_;
}

void FakeDaemon::set(const std::function<void(FakeOptions&)>& change) {
  const std::lock_guard lock(mutex_);
  change(options_);
  wake_thread();
}

void FakeDaemon::await_attach(std::uint32_t count) {
  std::unique_lock lock(mutex_);
  HC_CHECK(changed_.wait_for(lock, kPatience, [&] { return attaches_ >= count; }));
}

std::uint32_t FakeDaemon::attaches() {
  const std::lock_guard lock(mutex_);
  return attaches_;
}

std::uint32_t FakeDaemon::leaves() {
  const std::lock_guard lock(mutex_);
  return leaves_;
}

std::uint32_t FakeDaemon::detaches() {
  const std::lock_guard lock(mutex_);
  return detaches_;
}

std::vector<std::uint32_t> FakeDaemon::regions() {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, region] : live().regions) {
    numbers.push_back(number);
  }
  return numbers;
}

AttachRequest FakeDaemon::attach_request() {
  const std::lock_guard lock(mutex_);
  return live().request;
}

std::vector<LeaseId> FakeDaemon::listed_leases() {
  const std::lock_guard lock(mutex_);
  return live().leases;
}

SpaceDescriptor FakeDaemon::space() {
  const std::lock_guard lock(mutex_);
  return live().space;
}

UniqueFd FakeDaemon::region_fd(std::uint32_t region) {
  const std::lock_guard lock(mutex_);
  return must(live().regions.at(region).second.duplicate());
}

RegionRequest FakeDaemon::region_request(std::uint32_t region) {
  const std::lock_guard lock(mutex_);
  return live().regions.at(region).first;
}

bool FakeDaemon::has_request() {
  const std::lock_guard lock(mutex_);
  return live().requests->has_news();
}

RequestEntry FakeDaemon::next_request() {
  while (true) {
    int doorbell = -1;
    {
      const std::lock_guard lock(mutex_);
      RequestEntry entry{};
      std::uint32_t taken = 0;
      mark_awake(live().server()->daemon_sleeping);
      HC_CHECK(live().requests->take({&entry, 1}, taken) == Code::ok);
      if (taken == 1) {
        return entry;
      }
      mark_sleeping(live().server()->daemon_sleeping);
      full_fence();
      if (live().requests->has_news()) {
        continue;
      }
      doorbell = live().doorbell.get();
    }
    pollfd ready{doorbell, POLLIN, 0};
    const std::chrono::milliseconds patience = kPatience;
    HC_CHECK(::poll(&ready, 1, static_cast<int>(patience.count())) == 1);
    std::uint64_t count = 0;
    HC_CHECK(::read(doorbell, &count, sizeof count) == sizeof count);
  }
}

void FakeDaemon::await_sleeping() {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    HC_CHECK(std::chrono::steady_clock::now() < end);
    const std::lock_guard lock(mutex_);
    if (load_acquire(live().server()->daemon_sleeping) == 1) {
      return;
    }
  }
}

PageEntry FakeDaemon::page(const RequestEntry& request, std::uint32_t index) {
  const std::lock_guard lock(mutex_);
  return *live().client_file.at<PageEntry>(op_pages_offset(request.op_slot) +
                                           index * sizeof(PageEntry));
}

std::vector<std::uint8_t> FakeDaemon::metadata(const RequestEntry& request, const PageEntry& page) {
  const std::lock_guard lock(mutex_);
  const auto bytes = live().client_file.bytes().subspan(
      op_metadata_offset(request.op_slot) + page.metadata_offset, page.metadata_bytes);
  return {bytes.begin(), bytes.end()};
}

CompletionEntry FakeDaemon::answer(const RequestEntry& request, Code code, Ack ack) {
  CompletionEntry entry{};
  entry.verb = request.verb;
  entry.ack = static_cast<std::uint8_t>(ack);
  entry.op_slot = request.op_slot;
  entry.op_sequence = request.op_sequence;
  entry.code = static_cast<std::int32_t>(code);
  entry.terminal = 1;
  entry.client_data = request.client_data;
  entry.page_count = request.page_count;
  return entry;
}

void FakeDaemon::complete(const CompletionEntry& completion) {
  const std::lock_guard lock(mutex_);
  HC_CHECK(live().completions->stage(completion) == Code::ok);
  live().completions->publish();
  wake_client(live().server()->wake_word, live().client()->client_waiting);
  if ((load_relaxed(live().client()->client_waiting) & kWaitPacket) != 0) {
    send(MessageType::wake, 0, Code::ok, {}, {});
  }
}

void FakeDaemon::write_frame_ref(std::uint16_t op_slot, std::uint32_t page, std::uint32_t kind,
                                 FrameRef ref) {
  const std::lock_guard lock(mutex_);
  *live().server_file.writable_at<FrameRef>(result_area_offset(op_slot) +
                                            (page * kKindsMax + kind) * sizeof ref) = ref;
}

void FakeDaemon::break_completion_tail() {
  const std::lock_guard lock(mutex_);
  store_release(live().server()->completion_tail, 0x80000000U);
}

std::uint32_t FakeDaemon::client_waiting() {
  const std::lock_guard lock(mutex_);
  return load_acquire(live().client()->client_waiting);
}

void FakeDaemon::await_waiting(std::uint32_t flags) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while ((client_waiting() & flags) != flags) {
    HC_CHECK(std::chrono::steady_clock::now() < end);
    std::this_thread::yield();
  }
}

void FakeDaemon::await_held(std::size_t count) {
  std::unique_lock lock(mutex_);
  HC_CHECK(changed_.wait_for(lock, kPatience, [&] { return held_.size() >= count; }));
}

void FakeDaemon::await_refused(std::uint32_t count) {
  std::unique_lock lock(mutex_);
  HC_CHECK(changed_.wait_for(lock, kPatience, [&] { return refused_ >= count; }));
}

void FakeDaemon::await_end_of_sending() {
  std::unique_lock lock(mutex_);
  HC_CHECK(changed_.wait_for(lock, kPatience, [&] { return sending_ended_; }));
}

void FakeDaemon::answer_held() {
  const std::lock_guard lock(mutex_);
  options_.answer_calls = true;
  for (HeldCall& call : held_) {
    answer_call(call.header, call.body, std::move(call.fds));
  }
  held_.clear();
}

void FakeDaemon::put_status(const PageHash& hash, const PageStatus& status) {
  const std::lock_guard lock(mutex_);
  HC_CHECK(live().table.put(hash, status) == Code::ok);
}

std::span<std::uint8_t> FakeDaemon::frame_payload(std::uint16_t kind, std::uint32_t frame) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t frame_bytes = live().infos.at(kind).frame_bytes;
  return live().arenas.at(kind).writable_bytes().subspan(
      std::size_t{frame} * frame_bytes + kBlockBytes, live().space.kinds[kind].payload_bytes);
}

void FakeDaemon::change_frame(std::uint32_t generation_index) {
  const std::lock_guard lock(mutex_);
  live().generations.begin_change(generation_index);
  live().generations.end_change(generation_index);
}

std::uint64_t FakeDaemon::generation(std::uint32_t generation_index) {
  const std::lock_guard lock(mutex_);
  return live().generations.current(generation_index);
}

void FakeDaemon::crash() {
  const std::lock_guard lock(mutex_);
  close_client();
}

void FakeDaemon::end_session(Code code, const std::string& text) {
  send_notice(NoticeKind::session_ended, code, text);
  const std::lock_guard lock(mutex_);
  store_release(live().server()->end_code, static_cast<std::int32_t>(code));
  store_release(live().server()->state, static_cast<std::uint32_t>(SessionState::ended));
  close_client();
}

void FakeDaemon::become_new_instance() {
  const std::lock_guard lock(mutex_);
  ++instance_[0];
  stand_in_ = std::make_unique<StandIn>();
}

void FakeDaemon::stop_listening() {
  const std::lock_guard lock(mutex_);
  listener_.reset();
  ::unlink(path_.c_str());
  wake_thread();
}

void FakeDaemon::send_notice(NoticeKind kind, Code code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const Notice notice{static_cast<std::uint32_t>(kind), static_cast<std::int32_t>(code)};
  std::vector<std::uint8_t> body(bytes_of(notice).begin(), bytes_of(notice).end());
  body.insert(body.end(), text.begin(), text.end());
  send(MessageType::notice, 0, Code::ok, body, {});
}

void FakeDaemon::send_nonsense() {
  const std::lock_guard lock(mutex_);
  const std::array<std::uint8_t, 3> nonsense{1, 2, 3};
  HC_CHECK(send_message(client_.get(), nonsense, {}, SocketWait::none).has_value());
}

void FakeDaemon::set_state(SessionState state) {
  const std::lock_guard lock(mutex_);
  store_release(live().server()->state, static_cast<std::uint32_t>(state));
}

}  // namespace hc::test
