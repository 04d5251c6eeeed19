// SPDX-License-Identifier: Apache-2.0
// session: one connection and what belongs to it.
//
// Owner: the reactor thread.
// Invariants:
//   - a request is taken from the ring only when all its completions have a reserved place
//   - the socket stays open until no copy on the client's memory is in flight
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/engine.h"
#include "daemon/os/unix_socket.h"
#include "daemon/session/region_map.h"
#include "proto/handshake.h"
#include "shm/doorbell.h"
#include "shm/memory_file.h"
#include "shm/region.h"
#include "shm/ring_consumer.h"
#include "shm/ring_producer.h"
#include "shm/unique_fd.h"

namespace hc {

enum class SessionPhase : std::uint8_t {
  connected,  // no attach yet
  holding,    // attached while the cold start is held; not known to the engine
  attached,
  ended,      // service is over; leases may live on
  gone,       // to be removed
};

// The two shared-memory files of a session and their rings.
class SessionRings {
 public:
  // Maps the client's file and makes the server's one. Errors: refused, no_space, io_error.
  // A file that is refused is left alone.
  static Result<std::unique_ptr<SessionRings>> create(UniqueFd&& client_file);

  SessionRings(MemoryFile client, Region client_map, MemoryFile server, Region server_map,
               UniqueFd doorbell);

  ServerHeader& server_header() { return *server_map_.writable_at<ServerHeader>(0); }
  const ClientHeader& client_header() const { return *client_map_.at<ClientHeader>(0); }
  const Region& client_map() const { return client_map_; }
  void write_results(std::uint16_t op_slot, std::span<const FrameRef> frames);
  Result<UniqueFd> server_file_for_client() const { return server_.readonly_fd(); }
  int doorbell() const { return doorbell_.get(); }

  RequestConsumer requests;
  CompletionProducer completions;

 private:
  MemoryFile client_;
  Region client_map_;
  MemoryFile server_;
  Region server_map_;
  UniqueFd doorbell_;
};

struct Session {
  std::uint32_t number = 0;            // place in the server's table
  std::uint64_t serial = 0;            // never the same again
  SessionPhase phase = SessionPhase::connected;
  UniqueFd socket;
  PeerCredentials peer;
  UniqueFd client_pidfd;
  bool is_named = false;               // its process, by the kernel; else by the client itself
  bool client_dead = false;            // pidfd fired
  bool detached = false;               // said so itself, or was superseded: leases go at once
  bool hands_off = false;              // it says that it touches no frame any more
  bool writes_frames = false;          // its arenas are writable: it may copy itself
  std::string copies_itself;           // why, of the region that came last
  bool socket_closed = false;          // the peer has closed its end
  bool broken = false;                 // broke the ring protocol; ends with the next reap
  Code end_code = Code::ok;
  std::int64_t connected_at_ns = 0;
  Instant dead_at{};                   // when the loop first saw that its process had ended

  std::string group;
  std::uint16_t rank = 0;
  std::uint16_t world = 0;
  std::uint16_t shard = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t quota_bytes = 0;       // asked for; once it is attached, granted
  bool leases_kept = false;            // those that it listed are its own
  std::uint64_t follows = 0;           // then, the serial of the session that it named
  SessionId engine_id = SessionTable::kNoSession;
  SpaceNo space{};
  SpaceDescriptor descriptor;          // of a session that attached in hold
  std::unique_ptr<SessionRings> rings;
  std::array<std::optional<ClientRegion>, kRegionsPerSession> regions;
  std::array<std::uint8_t, kOpSlotsPerSession> credit{};  // completions still owed per slot
  std::uint32_t credit_total = 0;
  bool publish_wanted = false;
  bool pidfd_watched = false;          // in the epoll set
  bool doorbell_watched = false;

  // Device memory that is being opened.
  struct PendingRegion {
    std::uint64_t request_id = 0;
    std::uint32_t region = 0;
    bool has_fds = false;              // that the device's thread still needs
    EngineRegion judged;
  };
  std::vector<PendingRegion> pending_regions;
  // Device memory that is being closed for its owner.
  struct PendingEnd {
    std::uint64_t request_id = 0;
    std::uint32_t region = 0;
  };
  std::vector<PendingEnd> pending_ends;

  struct PendingSwitch {
    std::uint64_t request_id = 0;
    std::string weight_version;
  };
  std::optional<PendingSwitch> pending_switch;

  struct PendingGet {
    std::uint64_t request_id = 0;
    std::uint32_t key = 0;
  };
  std::vector<PendingGet> pending_gets;  // of the blackboard; at most kBlackboardGetsMax
  bool in_group = false;                 // counted by `groups`

  bool in_engine() const { return engine_id != SessionTable::kNoSession; }
};

}  // namespace hc
