// SPDX-License-Identifier: Apache-2.0
// ring_layout: the bytes of the two shared-memory files of a session.
//
// The client file is written by the client only, the server file by the daemon only. Indices are
// free-running 32-bit counters; `tail - head` as unsigned is the number of entries in a ring, so
// one comparison with the capacity covers wraparound, backward steps and garbage. Each hot word
// has a cache line of its own.
//
//   client file: ClientHeader | requests | op areas (pages, metadata)
//   server file: ServerHeader | completions | result areas (frame references)
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/messages.h"
#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::uint32_t kClientFileMagic = 0x43434948;  // "HICC"
inline constexpr std::uint32_t kServerFileMagic = 0x52434948;  // "HICR"

struct ClientHeader {
  std::uint32_t magic;
  std::uint32_t protocol;
  std::uint64_t fingerprint;
  std::uint8_t pad0[48];
  std::uint32_t request_tail;      // released by the client, acquired by the daemon
  std::uint8_t pad1[60];
  std::uint32_t completion_head;   // released by the client, acquired by the daemon
  std::uint8_t pad2[60];
  std::uint32_t client_waiting;    // kWaitFutex: sleeps on wake_word; kWaitPacket: wants a packet
  std::uint8_t pad3[60];
};
static_assert(WireStruct<ClientHeader> && sizeof(ClientHeader) == 256);
static_assert(offsetof(ClientHeader, request_tail) == 64);
static_assert(offsetof(ClientHeader, completion_head) == 128);
static_assert(offsetof(ClientHeader, client_waiting) == 192);

inline constexpr std::uint32_t kWaitFutex = 1;
inline constexpr std::uint32_t kWaitPacket = 2;  // one `wake` message on the control socket

enum class SessionState : std::uint32_t {
  holding = 1,  // attached; the daemon waits for the operator's cold start
  serving = 2,
  ended = 3,    // `end_code` says why; nothing will be answered any more
};

struct ServerHeader {
  std::uint32_t magic;
  std::uint32_t protocol;
  std::uint64_t fingerprint;
  std::uint8_t pad0[48];
  std::uint32_t request_head;      // released by the daemon after it copied the entries
  std::uint8_t pad1[60];
  std::uint32_t completion_tail;   // released by the daemon
  std::uint8_t pad2[60];
  std::uint32_t wake_word;         // futex; raised with every batch of completions
  std::uint8_t pad3[60];
  std::uint32_t daemon_sleeping;   // 1: write the doorbell after publishing a request
  std::uint8_t pad4[60];
  std::uint32_t state;             // SessionState
  std::int32_t end_code;           // Code
  std::uint32_t quiet;             // 1: ended, and nothing touches the client's memory any more
  std::uint8_t pad5[52];
};
static_assert(WireStruct<ServerHeader> && sizeof(ServerHeader) == 384);
static_assert(offsetof(ServerHeader, request_head) == 64);
static_assert(offsetof(ServerHeader, completion_tail) == 128);
static_assert(offsetof(ServerHeader, wake_word) == 192);
static_assert(offsetof(ServerHeader, daemon_sleeping) == 256);
static_assert(offsetof(ServerHeader, state) == 320);

// Offsets in the client file.
inline constexpr std::uint64_t kRequestsOffset = kBlockBytes;
inline constexpr std::uint64_t kOpAreaOffset =
    kRequestsOffset + std::uint64_t{kRingEntries} * sizeof(RequestEntry);
inline constexpr std::uint64_t kOpPagesBytes = std::uint64_t{kPagesPerOpMax} * sizeof(PageEntry);
inline constexpr std::uint64_t kOpAreaBytes = kOpPagesBytes + kMetadataAreaBytes;
inline constexpr std::uint64_t kClientFileBytes =
    kOpAreaOffset + kOpSlotsPerSession * kOpAreaBytes;

// Offsets in the server file.
inline constexpr std::uint64_t kCompletionsOffset = kBlockBytes;
inline constexpr std::uint64_t kResultAreaOffset =
    kCompletionsOffset + std::uint64_t{kCompletionEntries} * sizeof(CompletionEntry);
inline constexpr std::uint64_t kResultAreaBytes =
    std::uint64_t{kPagesPerOpMax} * kKindsMax * sizeof(FrameRef);
inline constexpr std::uint64_t kServerFileBytes =
    kResultAreaOffset + kOpSlotsPerSession * kResultAreaBytes;

constexpr std::uint64_t op_pages_offset(std::uint16_t op_slot) {
  return kOpAreaOffset + op_slot * kOpAreaBytes;
}
constexpr std::uint64_t op_metadata_offset(std::uint16_t op_slot) {
  return op_pages_offset(op_slot) + kOpPagesBytes;
}
constexpr std::uint64_t result_area_offset(std::uint16_t op_slot) {
  return kResultAreaOffset + op_slot * kResultAreaBytes;
}

}  // namespace hc
