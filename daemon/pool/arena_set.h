// SPDX-License-Identifier: Apache-2.0
// arena_set: the memory files of one family's frames, mapped.
//
// Owner: the reactor thread; copier threads touch frames that a job names.
// Invariants:
//   - frames of a kind are numbered through its arenas without gaps
//   - a client gets read-only descriptors, and only of its own family
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "proto/handshake.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "shm/generations.h"
#include "shm/memory_file.h"
#include "shm/region.h"

namespace hc {

struct KindFrames {
  std::uint16_t kind = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t frame_count = 0;
};

struct ArenaOptions {
  std::uint64_t arena_bytes = 1ULL << 30;  // wanted size of one memory file
  bool try_huge_pages = false;
  bool commit_memory = true;               // shortage is an error here, never a later signal
  std::uint32_t prefault_threads = 0;      // that allocate it; 0: one per processor
  std::function<void()> on_progress;       // called between pieces of the allocation
  // Told of each arena's memory: mapped (and the size of its frames), and about to be unmapped.
  std::function<void(std::span<std::uint8_t>, std::uint32_t frame_bytes)> on_mapped;
  std::function<void(std::span<std::uint8_t>)> on_unmapping;
  std::function<FreeMemory()> free_memory = [] { return hc::free_memory(); };
};

class ArenaSet {
 public:
  // Errors: no_space (memory), bad_argument (a kind with no frame).
  static Result<ArenaSet> create(const std::vector<KindFrames>& kinds,
                                 const ArenaOptions& options);
  ArenaSet(ArenaSet&&) = default;
  ArenaSet(const ArenaSet&) = delete;
  ArenaSet& operator=(const ArenaSet&) = delete;
  ArenaSet& operator=(ArenaSet&&) = delete;
  ~ArenaSet();

  std::uint8_t* frame(std::uint16_t kind, FrameId frame);
  std::uint32_t frame_bytes(std::uint16_t kind) const { return kinds_[kind].frame_bytes; }
  std::uint32_t frame_count(std::uint16_t kind) const { return kinds_[kind].frame_count; }
  std::uint64_t generation_index(std::uint16_t kind, FrameId frame) const;
  GenerationsWriter& generations() { return generations_; }

  struct Arena {
    ArenaInfo info;
    MemoryFile file;
    Region region;
  };
  const std::vector<Arena>& arenas() const { return arenas_; }
  std::uint64_t bytes() const;
  bool huge_pages() const;

 private:
  struct Kind {
    std::uint32_t frame_bytes = 0;
    std::uint32_t frame_count = 0;
    std::uint32_t frames_per_arena = 0;
    std::uint32_t first_arena = 0;
    std::uint64_t first_generation = 0;
  };
  explicit ArenaSet(GenerationsWriter generations) : generations_(std::move(generations)) {}
  // Every page of an arena, allocated and mapped. A huge page that is promised is there.
  static Result<void> commit(MemoryFile& file, Region& region, const ArenaOptions& options);
  Result<void> add_kind(const KindFrames& spec, std::uint64_t first_generation,
                        const ArenaOptions& options);

  GenerationsWriter generations_;
  std::vector<Kind> kinds_;
  std::vector<Arena> arenas_;  // moved from: empty
  std::function<void(std::span<std::uint8_t>)> on_unmapping_;
};

}  // namespace hc
