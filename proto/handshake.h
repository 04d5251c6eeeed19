// SPDX-License-Identifier: Apache-2.0
// handshake: messages on the control socket (Unix, SEQPACKET), with the descriptors they carry.
//
// Every message is a MessageHeader and a body. A request is answered by one reply with the same
// request_id; a reply with a status other than ok carries one line of text instead of its body.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/region_messages.h"
#include "proto/ring_layout.h"
#include "proto/status.h"
#include "proto/status_table_layout.h"
#include "proto/versions.h"
#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::uint32_t kMessageMagic = 0x4D434948;  // "HICM"
inline constexpr std::uint32_t kMessageBytesMax = 160U << 10;
inline constexpr std::uint32_t kMessageFdsMax = 64;
static_assert(kChunksPerRegionMax <= kMessageFdsMax);

enum class MessageType : std::uint16_t {
  attach = 1,            // AttachRequest, descriptor | fds: client file, pidfd of the client and,
                         //                             with leases, a memory file of LeaseId[]
  attach_reply = 2,      // AttachReply | fds: server file, doorbell, status table, generations,
                         //               pidfd of the daemon
  arenas = 3,            // ArenaInfo[] | fds: one memory file each; follows attach_reply
  register_region = 4,   // RegionRequest, LayoutRequest[], ... | fds: memory file, or of chunks
  unregister_region = 5, // RegionRequest (region only); answered when nothing touches it
  reply = 6,             // no body, or the line of text
  detach = 7,            // no body; ends the session and everything it holds
  space_switch = 8,      // SpaceSwitchRequest, weight version text
  space_switch_reply = 9,// SpaceSwitchReply | fd: status table
  stats = 10,            // no body
  stats_reply = 11,      // StatsReply
  notice = 12,           // Notice, text; daemon to client, not answered
  blackboard_post = 13,  // BlackboardRequest, bytes: for the other ranks of the group
  blackboard_get = 14,   // BlackboardRequest; answered when somebody has posted under the key
  blackboard_reply = 15, // bytes
  admin = 16,            // JSON text (admin socket only)
  admin_reply = 17,      // JSON text
  wake = 18,             // no body; completions are there (only when the client asked for it)
  board_join = 19,       // BoardRequest: a place on the agreement board of the group
  board_reply = 20,      // BoardReply | fd: the board
  board_watch = 21,      // BoardReply | fd: a board from before a daemon's end, to be watched on
  leave = 22,            // no body; ends the session, its leases wait for the client's next one
};

struct MessageHeader {
  std::uint32_t magic;
  std::uint16_t type;
  std::uint16_t fd_count;
  std::uint32_t bytes;       // header and body
  std::int32_t status;       // Code; replies only
  std::uint64_t request_id;
};
static_assert(WireStruct<MessageHeader> && sizeof(MessageHeader) == 24);

// The client wants arenas that it may write: regions of kind `rank` need them.
inline constexpr std::uint32_t kAttachWritable = 1;

struct AttachRequest {
  std::uint32_t protocol;
  std::uint32_t flags;              // kAttach*
  std::uint64_t fingerprint;        // layout_fingerprint()
  std::uint64_t incarnation;        // an equal or newer token of the same (group, rank) supersedes
  std::array<char, kGroupBytesMax> group;  // zero-padded name of the engine instance
  std::uint16_t rank;               // of the group
  std::uint16_t world;              // ranks of the group
  std::uint16_t shards_on_node;     // for the split of budgets; 0: all shards of the space
  std::uint16_t tensor;             // coordinates of this rank's shard
  std::uint16_t pipeline;
  std::uint16_t context;
  std::uint32_t descriptor_bytes;
  std::uint64_t quota_bytes;        // guaranteed L2 quota; 0: none asked for
  // The session that this client had before, by the words of its reply, and the leases of it that
  // the client still holds: they become the new session's, all of them or none. What is not listed
  // ends. Zero: none.
  Uuid previous_daemon;
  std::uint64_t previous_session;
  std::uint32_t lease_count;
  std::uint32_t reserved;           // zero
};
static_assert(WireStruct<AttachRequest> && sizeof(AttachRequest) == 144);

struct AttachReply {
  std::uint32_t protocol;
  std::uint32_t session;
  std::uint64_t fingerprint;
  Uuid daemon_instance;             // random at each start of the daemon
  Uuid store_uuid;
  SpaceId space;
  FamilyId family;
  std::uint16_t shard;
  std::uint16_t part_count;
  std::uint32_t arena_count;        // ArenaInfo records in the arenas messages that follow
  std::uint64_t status_table_bytes;
  std::uint64_t generation_count;   // u64 words in the generations file
  std::uint64_t quota_bytes;        // granted
  std::uint64_t session_serial;     // of this daemon's sessions, from 1; never the same again
  std::uint32_t leases_kept;        // 1: what the request lists is this session's now
  std::uint32_t reserved;           // zero
};
static_assert(WireStruct<AttachReply> && sizeof(AttachReply) == 160);

struct ArenaInfo {
  std::uint16_t kind;
  std::uint16_t reserved;
  std::uint32_t first_frame;        // frame ids of a kind run on through its arenas
  std::uint32_t frame_count;
  std::uint32_t frame_bytes;        // header block + payload, rounded up
  std::uint64_t generation_index;   // of its first frame, in the generations file
};
static_assert(WireStruct<ArenaInfo> && sizeof(ArenaInfo) == 24);

struct SpaceSwitchRequest {
  std::uint32_t weight_version_bytes;
  std::uint32_t reserved;
};
static_assert(WireStruct<SpaceSwitchRequest> && sizeof(SpaceSwitchRequest) == 8);

struct SpaceSwitchReply {
  SpaceId space;
  std::uint64_t status_table_bytes;
};
static_assert(WireStruct<SpaceSwitchReply> && sizeof(SpaceSwitchReply) == 40);

struct StatsReply {
  std::uint64_t pages;              // known pages, all spaces
  std::uint64_t resident_parts;
  std::uint64_t written_parts;      // written, not yet durable
  std::uint64_t durable_parts;
  std::uint64_t frames_total;
  std::uint64_t frames_free;
  std::uint64_t frames_leased;
  std::uint64_t slots_total;        // that have their space now
  std::uint64_t slots_free;
  std::uint64_t oldest_undurable_ms;
  std::uint64_t hits_l2;            // pages
  std::uint64_t hits_l3;
  std::uint64_t misses;
  std::uint64_t stored;
  std::uint64_t evicted_l2;
  std::uint64_t evicted_l3;
  std::uint64_t verify_failures;
  std::uint64_t commits;
};
static_assert(WireStruct<StatsReply> && sizeof(StatsReply) == 144);

enum class NoticeKind : std::uint32_t {
  serving = 1,        // the cold start is over
  session_ended = 2,  // code and text say why
};

struct Notice {
  std::uint32_t kind;
  std::int32_t code;
};
static_assert(WireStruct<Notice> && sizeof(Notice) == 8);

struct BlackboardRequest {
  std::uint32_t key;
  std::uint32_t value_bytes;        // 1..kBlackboardBytesMax; 0 in a get
};
static_assert(WireStruct<BlackboardRequest> && sizeof(BlackboardRequest) == 8);

struct BoardRequest {
  std::uint32_t words;              // of one vector
  std::uint32_t reserved;
};
static_assert(WireStruct<BoardRequest> && sizeof(BoardRequest) == 8);

// Ranks that hold a board of the same number of their group reduce on the same one.
struct BoardReply {
  std::uint64_t number;             // from 1; rises with every board of the group
  std::uint32_t world;
  std::uint32_t words;
};
static_assert(WireStruct<BoardReply> && sizeof(BoardReply) == 16);

// Folded from the sizes of the shared structs and the bounds of their areas; both sides compare it
// before anything is mapped.
constexpr std::uint64_t layout_fingerprint() {
  return LayoutFingerprint{}
      .add(kProtocolVersion)
      .add(sizeof(RequestEntry)).add(offsetof(RequestEntry, lease))
      .add(offsetof(RequestEntry, client_data))
      .add(sizeof(PageEntry)).add(offsetof(PageEntry, owner))
      .add(sizeof(CompletionEntry)).add(offsetof(CompletionEntry, lease))
      .add(sizeof(FrameRef)).add(sizeof(ClientHeader)).add(sizeof(ServerHeader))
      .add(sizeof(StatusTableHeader)).add(offsetof(StatusTableHeader, key)).add(sizeof(StatusEntry))
      .add(sizeof(MessageHeader)).add(sizeof(AttachRequest)).add(sizeof(AttachReply))
      .add(sizeof(ArenaInfo)).add(sizeof(RegionRequest)).add(offsetof(RegionRequest, export_kind))
      .add(sizeof(RegionChunk)).add(kChunksPerRegionMax).add(sizeof(LayoutRequest))
      .add(sizeof(LayoutRun)).add(sizeof(SpaceSwitchRequest)).add(sizeof(SpaceSwitchReply))
      .add(sizeof(StatsReply)).add(sizeof(Notice)).add(sizeof(BlackboardRequest))
      .add(sizeof(BoardRequest)).add(sizeof(BoardReply))
      .add(kRegionsPerSession).add(kRunsPerLayoutMax).add(kOpBytesMax).add(kCompletionsPerOp)
      .add(kMessageFdsMax).add(kRingEntries).add(kCompletionEntries).add(kOpSlotsPerSession)
      .add(kPagesPerOpMax).add(kKindsMax).add(kPartsMax).add(kMetadataAreaBytes)
      .add(kClientFileBytes).add(kServerFileBytes).value();
}

// No later attempt with the same arguments can end otherwise.
constexpr bool attach_is_final(Code code) {
  return code == Code::refused || code == Code::superseded || code == Code::bad_argument;
}

}  // namespace hc
