// SPDX-License-Identifier: Apache-2.0
// raw_client: a client without a library, that can break every rule of the protocol.
//
// Owner thread: one. It writes into its memory file whatever it likes; only its own memory is at
// stake.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/connection.h"
#include "e2e/rank.h"
#include "proto/handshake.h"
#include "shm/memory_file.h"
#include "shm/region.h"
#include "shm/unique_fd.h"

namespace hc::test {

// An attach as it should be; a test spoils what it is about.
struct AttachTry {
  AttachRequest request{};
  std::vector<std::uint8_t> descriptor;
  UniqueFd client_file;
  UniqueFd pidfd;
  bool send_pidfd = true;
  std::vector<std::uint64_t> leases;  // listed, and added to the request's count
  std::size_t message_bytes_max = SIZE_MAX;  // the message is cut there
};

class RawClient {
 public:
  explicit RawClient(const RankOptions& options);

  AttachTry make_attach() const;
  // The daemon's answer: ok, or its code with its text.
  Result<void> attach(AttachTry attempt);
  Result<void> attach() { return attach(make_attach()); }
  // Nobody waits for the answer.
  Result<void> send_attach(AttachTry attempt);

  // What came with the latest yes.
  const AttachReply& reply() const { return reply_; }

  ClientHeader& header() { return *file_map_->writable_at<ClientHeader>(0); }
  const ServerHeader& server() const { return *server_map_->at<ServerHeader>(0); }
  RequestEntry& request_at(std::uint32_t index);
  PageEntry& page_at(std::uint16_t op_slot, std::uint32_t index);
  const CompletionEntry& completion_at(std::uint32_t index) const;

  // Writes an entry behind the last one and tells the daemon.
  void push(const RequestEntry& entry);
  void publish_tail(std::uint32_t tail);
  void ring() const;
  int doorbell() const { return doorbell_.get(); }
  // Takes the next completion and gives its place back.
  std::optional<CompletionEntry> next_completion();
  bool completions_reach(std::uint32_t count) const;

  // Registers `file` as region `number` with `rows` pages.
  Result<void> register_region(std::uint32_t number, int file, std::uint64_t size_bytes,
                               std::uint32_t rows);
  // Any message; its answer.
  Result<ControlMessage> call(MessageType type, const std::vector<std::uint8_t>& body,
                              std::vector<int> fds = {});
  // A message whose answer nobody waits for.
  Result<void> send(MessageType type, const std::vector<std::uint8_t>& body,
                    std::vector<int> fds);
  Result<void> send_bytes(const std::vector<std::uint8_t>& bytes) const;

  // Waits until the daemon has closed the connection; what its notice said, "" without one.
  std::string await_end();
  Code end_code() const;
  int control() const { return connection_->fd(); }  // readable: an answer has come
  // Gives the connection up without a word.
  void hang_up() { connection_.reset(); }

 private:
  template <typename Send>
  auto with_message(AttachTry attempt, Send&& send);

  RankOptions options_;
  std::optional<Connection> connection_;
  std::optional<MemoryFile> file_;
  std::optional<Region> file_map_;
  std::optional<Region> server_map_;
  UniqueFd doorbell_;
  AttachReply reply_{};
  std::uint64_t request_id_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;
};

// A request that is right in every field but what a test spoils.
RequestEntry good_entry(Verb verb, std::uint16_t op_slot, std::uint32_t pages = 0);

// A memory file without seals, of `size_bytes`.
UniqueFd plain_memory_file(std::uint64_t size_bytes);

}  // namespace hc::test
