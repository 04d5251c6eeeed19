// SPDX-License-Identifier: Apache-2.0
// limits: every bound of the system in one place. Full is an answer, not a wait.
//
// Bounds of shared layouts are part of the layout fingerprint.
#pragma once

#include <cstdint>

namespace hc {

// The smallest multiple of `unit` that is at least `value`.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

inline constexpr std::uint32_t kBlockBytes = 4096;        // O_DIRECT unit, header block size.
inline constexpr std::uint32_t kIoPieceBytes = 1U << 20;  // Largest single disk request.

// Spaces.
inline constexpr std::uint32_t kKindsMax = 8;             // Payload kinds of a space.
inline constexpr std::uint32_t kPartsMax = 64;            // (kind, shard) pairs of a family.
inline constexpr std::uint32_t kFamiliesMax = 16;         // Families that share one store.
inline constexpr std::uint32_t kWorldMax = 64;            // Shards of a space.
inline constexpr std::uint32_t kNameBytesMax = 256;       // Any text field of a space.
inline constexpr std::uint32_t kPayloadBytesMax = 64U << 20;
inline constexpr std::uint32_t kSpaceEpochsMax = 1024;    // Spaces that one store can ever know.
inline constexpr std::uint32_t kDescriptorBytesMax = 8192;  // Encoded space descriptor.
inline constexpr std::uint32_t kPageTokensMax = 65536;

// Sessions.
inline constexpr std::uint32_t kSessionsMax = 256;
inline constexpr std::uint32_t kOpSlotsPerSession = 64;   // Operations in flight of one session.
inline constexpr std::uint32_t kRingEntries = 256;        // Requests; power of two.
inline constexpr std::uint32_t kCompletionEntries = 1024; // Completions; power of two.
inline constexpr std::uint32_t kCompletionsPerOp = 5;     // prepared, resident, written, late,
                                                          // terminal.
inline constexpr std::uint32_t kRegionsPerSession = 16;
inline constexpr std::uint32_t kRunsPerLayoutMax = 512;   // (offset, stride, length) runs.
inline constexpr std::uint32_t kChunksPerRegionMax = 64;  // Of a region in memory of cuMemCreate:
                                                          // one message carries all of them.
inline constexpr std::uint32_t kPagesPerOpMax = 512;
inline constexpr std::uint64_t kOpBytesMax = 4ULL << 30;  // Payload bytes named by one operation.
inline constexpr std::uint32_t kMetadataBytesMax = kBlockBytes - 64 - 8;  // Page metadata.
inline constexpr std::uint32_t kMetadataAreaBytes = 192U << 10;  // Per operation slot.
inline constexpr std::uint32_t kDeadlineMsMax = 600'000;
inline constexpr std::uint32_t kGroupBytesMax = 64;
inline constexpr std::uint32_t kBlackboardKeysMax = 32;      // Of one group.
inline constexpr std::uint32_t kBlackboardBytesMax = 4096;   // Of one value.
inline constexpr std::uint32_t kBlackboardGetsMax = 8;       // Waiting, of one session.

// Engine tables.
inline constexpr std::uint32_t kOpsMax = 2048;            // Operations in flight, all sessions.
inline constexpr std::uint32_t kItemsMax = 131072;        // (operation, page, kind) in flight.
inline constexpr std::uint32_t kLeasesMax = 16384;        // Leases, all sessions.
inline constexpr std::uint32_t kLeasesPerSession = 8192;  // Of a session without quota.
inline constexpr std::uint32_t kLeaseNodesMax = 1U << 20; // (lease, page) pairs.
inline constexpr std::uint32_t kQuotaLeasesMax = 1U << 22;  // Leases that quotas reserve, in all.
inline constexpr std::uint32_t kPagesMax = 1U << 28;      // Pages one daemon can track.

// Files.
inline constexpr std::uint32_t kVolumesMax = 16;           // Disk directories of one store.

// Copies.
// How long what a dead process had queued in a GPU may still run.
inline constexpr std::uint32_t kGpuGraceMs = 1000;
inline constexpr std::uint32_t kReasonBytesMax = 256;     // Why a rank copies itself.
inline constexpr std::uint32_t kCopyJobsMax = 512;        // Copies in flight.
inline constexpr std::uint32_t kDiskRequestsMax = 512;    // Requests in flight below Disk.

static_assert((kRingEntries & (kRingEntries - 1)) == 0);
static_assert((kCompletionEntries & (kCompletionEntries - 1)) == 0);
static_assert(kCompletionEntries >= kOpSlotsPerSession * kCompletionsPerOp + kRingEntries,
              "every operation in flight and every inline request has its completion reserved");

}  // namespace hc
