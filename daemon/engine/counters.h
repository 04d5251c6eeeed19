// SPDX-License-Identifier: Apache-2.0
// counters: what the engine counts, once, with the meaning of each. Written by the reactor only.
#pragma once

#include <array>
#include <cstdint>

#include "proto/blob_header.h"

namespace hc {

// X(name, meaning)
#define HC_ENGINE_COUNTERS(X)                                                                \
  X(pages_stored, "pages of stores with at least one part copied in")                        \
  X(pages_deduplicated, "pages of stores with nothing to copy")                              \
  X(pages_hit_l2, "pages of loads, reloads and pins served from memory")                     \
  X(pages_hit_l3, "pages of loads and reloads with a part read from disk")                   \
  X(pages_missed, "pages of loads, reloads and pins that were absent or damaged")            \
  X(pages_freed, "pages forgotten by free_object, clear and clear of a space")               \
  X(pages_evicted_l2, "pages dropped from memory to make room")                              \
  X(pages_evicted_l3, "pages dropped from disk to make room")                                \
  X(bytes_stored, "payload bytes copied in by stores")                                       \
  X(bytes_loaded, "payload bytes copied out by loads")                                       \
  X(bytes_spilled, "blob bytes written to slots")                                            \
  X(bytes_read, "blob bytes read from slots")                                                \
  X(spills, "parts written to slots")                                                        \
  X(spill_failures, "parts that could not be written to a slot")                             \
  X(parts_held_back, "parts that the spill policy kept in memory alone when they were stored")  \
  X(parts_dropped_unspilled, "parts dropped from memory that the disk does not hold")        \
  X(flush_failures, "flushes of a slab that failed, late ones too")                          \
  X(spills_repeated, "parts written again because a flush had failed")                       \
  X(io_errors, "disk requests that a device refused")                                        \
  X(io_timeouts, "disk requests that a device did not answer in time")                       \
  X(volume_failures, "times that a volume was set aside because it did not answer")          \
  X(reads, "parts read from slots")                                                          \
  X(read_failures, "reads of slots that the device failed")                                  \
  X(slots_quarantined, "slots set aside because the device failed on them, clears included") \
  X(steps_moved, "preallocation steps that one slab gave up, for another or for the budget") \
  X(steps_failed, "preallocation steps that the disk would not allocate or give back")       \
  X(parts_unreachable, "parts dropped because their volume had failed when they were wanted") \
  X(commits, "group commits that succeeded")                                                 \
  X(commit_failures, "group commits that failed and will be tried again")                    \
  X(rows_committed, "index rows put by group commits")                                       \
  X(rows_erased, "index rows erased by group commits")                                       \
  X(commit_ns, "time spent in group commits, flush included")                                \
  X(index_repairs, "times the index was set aside while serving, and written anew from memory")\
  X(index_rebuilds, "starts at which the index had to be completed from the slot headers")   \
  X(slots_adopted, "slots whose blob no row named, found by such a rebuild")                 \
  X(slots_left_out, "such slots whose page found no record: newer pages have them all")      \
  X(marks_failed, "commit marks of slabs that could not be written")                         \
  X(superblock_failures, "writes of the superblock that failed and will be tried again")     \
  X(operations, "operations accepted")                                                       \
  X(operations_refused, "requests that did not become operations: full, or session ended")   \
  X(operations_busy, "operations answered busy")                                             \
  X(quota_waits, "operations within a quota that waited for room")                           \
  X(quota_refused, "operations answered no_space because they were beyond their quota")      \
  X(operations_late, "operations whose deadline passed while a copy could touch memory")     \
  X(operations_timed_out, "operations ended by their deadline")                              \
  X(operations_cancelled, "operations ended by cancel or by the end of their session")       \
  X(memory_faults, "operations ended because their client memory could not be touched")      \
  X(stores_discarded, "parts dropped because their store was late or ended")                 \
  X(stores_promoted, "parts that a waiting store filled after their first store had ended")  \
  X(rank_batches, "batches of frames that ranks were told of, to copy themselves")                \
  X(rank_batches_given_up, "of these, batches whose rank was gone before it answered")            \
  X(regions_registered, "regions of client memory that were mapped; a space switch maps none")  \
  X(sessions_opened, "sessions attached")                                                    \
  X(sessions_closed, "sessions ended")                                                       \
  X(status_overflow, "status table entries that found no place")

struct Counters {
#define HC_COUNTER_FIELD(name, meaning) std::uint64_t name = 0;
  HC_ENGINE_COUNTERS(HC_COUNTER_FIELD)
#undef HC_COUNTER_FIELD
  std::array<std::uint64_t, kBlobVerdicts> verify{};  // failed checks by BlobVerdict

  std::uint64_t verify_failures() const {
    std::uint64_t total = 0;
    for (const std::uint64_t count : verify) {
      total += count;
    }
    return total;
  }
};

}  // namespace hc
