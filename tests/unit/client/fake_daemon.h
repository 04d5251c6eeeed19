// SPDX-License-Identifier: Apache-2.0
// fake_daemon: the daemon's side of attach, control messages and rings, for tests of the client.
//
// A thread accepts clients and answers control messages. The ring is served by the test itself:
// next_request() waits for what the client has submitted, complete() answers it. So every
// interleaving is the test's to choose. Its process is a stand-in child that only waits, so that
// a test can let "the daemon" die without dying itself.
#pragma once

#include <sys/types.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proto/handshake.h"
#include "proto/space.h"
#include "shm/generations.h"
#include "shm/memory_file.h"
#include "shm/region.h"
#include "shm/ring_consumer.h"
#include "shm/ring_producer.h"
#include "shm/status_table_writer.h"
#include "shm/unique_fd.h"

namespace hc::test {

inline constexpr std::uint32_t kFakeFrames = 8;

// A child process that waits until it is killed.
class StandIn {
 public:
  StandIn();
  ~StandIn() { kill(); }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  void kill();
  UniqueFd pidfd() const;

 private:
  pid_t pid_ = -1;
};

struct FakeOptions {
  Code refuse_attach = Code::ok;
  std::string refusal = "refused by the test";
  SessionState state = SessionState::serving;
  std::uint32_t reply_protocol = kProtocolVersion;
  std::uint64_t reply_fingerprint = layout_fingerprint();
  std::uint16_t shard_offset = 0;  // added to the right shard in the reply
  std::uint32_t arena_count_offset = 0;
  bool arenas_at_all = true;
  bool answer_detach = true;  // false: hangs, also when the client has closed its end
  bool keep_leases = false;   // those that the next attach lists
  bool answer_calls = true;   // false: held until answer_held()
  bool read_calls = true;     // false: the socket is not read at all
  Code call_code = Code::ok;  // of register, unregister, space_switch, stats
  Code unregister_code = Code::ok;
};

class FakeDaemon {
 public:
  explicit FakeDaemon(std::filesystem::path socket_path, FakeOptions options = {});
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  void set(const std::function<void(FakeOptions&)>& change);

  // Waits for the n-th successful attach, from 1.
  void await_attach(std::uint32_t count);
  std::uint32_t attaches();
  // The regions that the present session registered, by number.
  std::vector<std::uint32_t> regions();
  AttachRequest attach_request();
  std::vector<LeaseId> listed_leases();
  SpaceDescriptor space();
  UniqueFd region_fd(std::uint32_t region);
  RegionRequest region_request(std::uint32_t region);

  // Goes to sleep like the daemon and is woken by the doorbell alone.
  RequestEntry next_request();
  // Waits until next_request(), on another thread, has said that it sleeps.
  void await_sleeping();
  bool has_request();
  PageEntry page(const RequestEntry& request, std::uint32_t index);
  std::vector<std::uint8_t> metadata(const RequestEntry& request, const PageEntry& page);

  // An answer to `request` with everything else zero.
  static CompletionEntry answer(const RequestEntry& request, Code code, Ack ack);
  void complete(const CompletionEntry& completion);
  void write_frame_ref(std::uint16_t op_slot, std::uint32_t page, std::uint32_t kind, FrameRef ref);
  void break_completion_tail();
  std::uint32_t client_waiting();
  // Waits until a thread of the client is about to sleep.
  void await_waiting(std::uint32_t flags);

  // Control calls that came while answer_calls was off.
  void await_held(std::size_t count);
  void answer_held();
  std::uint32_t detaches();  // of both kinds
  std::uint32_t leaves();    // those of a client that comes back
  // Waits until so many calls have been answered with another code than ok.
  void await_refused(std::uint32_t count);
  // Waits until the client of the present session has ended its sending.
  void await_end_of_sending();

  void put_status(const PageHash& hash, const PageStatus& status);
  std::span<std::uint8_t> frame_payload(std::uint16_t kind, std::uint32_t frame);
  void change_frame(std::uint32_t generation_index);
  std::uint64_t generation(std::uint32_t generation_index);

  // The socket closes as at a crash; the process lives on until die_fully().
  void crash();
  void die_fully() { stand_in_->kill(); }
  // What a daemon does at the end of a session: state, code, notice, end of the socket.
  void end_session(Code code, const std::string& text);
  void become_new_instance();
  void stop_listening();
  void send_notice(NoticeKind kind, Code code, const std::string& text);
  void set_state(SessionState state);
  // A message without a header.
  void send_nonsense();

 private:
  struct Live;  // the present session
  struct HeldCall {
    MessageHeader header;
    std::vector<std::uint8_t> body;
    std::vector<UniqueFd> fds;
  };

  void run();
  void wake_thread();
  void serve_client();
  void accept_client();
  void attach_client(std::span<const std::uint8_t> body, std::vector<UniqueFd> fds,
                     std::uint64_t request_id);
  static std::unique_ptr<Live> make_live(std::span<const std::uint8_t> body, UniqueFd client_fd);
  void send_attach_reply(std::uint64_t request_id);
  void send(MessageType type, std::uint64_t request_id, Code status,
            std::span<const std::uint8_t> body, std::span<const int> fds);
  void answer_call(const MessageHeader& header, std::span<const std::uint8_t> body,
                   std::vector<UniqueFd> fds);
  void answer_switch(std::uint64_t request_id, std::span<const std::uint8_t> body);
  void refuse(std::uint64_t request_id, Code code);
  void end_of_sending();
  void close_client();
  Live& live();

  std::filesystem::path path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  FakeOptions options_;
  std::unique_ptr<StandIn> stand_in_;
  Uuid instance_{};
  UniqueFd listener_;
  UniqueFd wake_;
  UniqueFd client_;
  bool stop_ = false;
  std::uint32_t attaches_ = 0;
  std::uint32_t detaches_ = 0, leaves_ = 0;
  std::uint32_t refused_ = 0;
  bool sending_ended_ = false;  // of the present client
  std::vector<HeldCall> held_;
  std::unique_ptr<Live> live_;
  std::thread thread_;
};

}  // namespace hc::test
