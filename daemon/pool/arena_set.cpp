// SPDX-License-Identifier: Apache-2.0
// arena_set: cuts each kind's frames into memory files and maps them.
#include "daemon/pool/arena_set.h"

#include <algorithm>

#include "daemon/log/log.h"
#include "proto/blob_header.h"
#include "proto/check.h"
#include "shm/populate.h"

namespace hc {

namespace {

// The kernel's own share of a mapped page (tree node, page tables) is below this part of it.
constexpr std::uint64_t kKernelShare = 64;

// Judged over all arenas at once: one by one, each of them fits until the kernel kills the daemon.
Result<void> check_free_memory(const std::vector<KindFrames>& kinds, const ArenaOptions& options) {
  if (!options.commit_memory) {
    return {};
  }
  std::uint64_t wanted = 0;
  for (const KindFrames& kind : kinds) {
    wanted += blob_bytes(kind.payload_bytes) * kind.frame_count;
  }
  const FreeMemory free = options.free_memory();
  const std::uint64_t huge = options.try_huge_pages ? std::min(free.huge_bytes, wanted) : 0;
  const std::uint64_t ordinary = wanted - huge;
  if (ordinary + ordinary / kKernelShare > free.ordinary_bytes) {
    return make_error(Code::no_space,
                      "l2.l2_bytes: the frames want " + std::to_string(wanted) +
                          " bytes of memory and 1/64 more for page tables, available are " +
                          std::to_string(free.ordinary_bytes + huge));
  }
  return {};
}

}  // namespace

Result<ArenaSet> ArenaSet::create(const std::vector<KindFrames>& kinds,
                                  const ArenaOptions& options) {
  std::uint64_t frames = 0;
  for (const KindFrames& kind : kinds) {
    if (kind.frame_count == 0) {
      return make_error(Code::bad_argument, "l2.l2_bytes: too small for one frame of kind " +
                                                std::to_string(kind.kind));
    }
    frames += kind.frame_count;
  }
  HC_TRY_VOID(check_free_memory(kinds, options));
  auto generations = GenerationsWriter::create(frames);
  HC_TRY(generations);
  ArenaSet set(std::move(*generations));
  set.on_unmapping_ = options.on_unmapping;
  std::uint64_t first_generation = 0;
  for (const KindFrames& kind : kinds) {
    HC_CHECK(kind.kind == set.kinds_.size());
    HC_TRY_VOID(set.add_kind(kind, first_generation, options));
    first_generation += kind.frame_count;
  }
  if (options.try_huge_pages && !set.huge_pages()) {
    log_warn("l2.no_huge_pages", {{"bytes", set.bytes()},
                                  {"reason", "too few are set aside (vm.nr_hugepages)"}});
  }
  return set;
}

ArenaSet::~ArenaSet() {
  for (Arena& arena : arenas_) {
    if (on_unmapping_) {
      on_unmapping_(arena.region.writable_bytes());
    }
  }
}

Result<void> ArenaSet::add_kind(const KindFrames& spec, std::uint64_t first_generation,
                                const ArenaOptions& options) {
  Kind kind;
  kind.frame_bytes = static_cast<std::uint32_t>(blob_bytes(spec.payload_bytes));
  kind.frame_count = spec.frame_count;
  const std::uint64_t per_arena =
      std::max<std::uint64_t>(1, options.arena_bytes / kind.frame_bytes);
  kind.frames_per_arena =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(per_arena, spec.frame_count));
  kind.first_arena = static_cast<std::uint32_t>(arenas_.size());
  kind.first_generation = first_generation;
  for (std::uint32_t first = 0; first < spec.frame_count; first += kind.frames_per_arena) {
    const std::uint32_t count = std::min(kind.frames_per_arena, spec.frame_count - first);
    const std::uint64_t size = std::uint64_t{count} * kind.frame_bytes;
    auto file = MemoryFile::create("hicache-arena", size,
                                   {options.try_huge_pages, false, options.on_progress});
    HC_TRY(file);
    RegionOptions map;
    map.size_bytes = size;
    map.read_only = false;
    map.hint_huge_pages = true;
    auto region = Region::map(file->fd(), map);
    HC_TRY(region);
    HC_TRY_VOID(commit(*file, *region, options));
    HC_TRY_VOID(file->finish_seals(false));
    const ArenaInfo info{spec.kind, 0, first, count, kind.frame_bytes, first_generation + first};
    arenas_.push_back(Arena{info, std::move(*file), std::move(*region)});
    if (options.on_mapped) {
      options.on_mapped(arenas_.back().region.writable_bytes(), kind.frame_bytes);
    }
  }
  kinds_.push_back(kind);
  return {};
}

Result<void> ArenaSet::commit(MemoryFile& file, Region& region, const ArenaOptions& options) {
  if (!options.commit_memory) {
    return {};
  }
  auto populated = populate_for_writing(region.writable_bytes(),
                                        {options.prefault_threads, options.on_progress});
  if (!populated && populated.error().code == Code::unsupported) {
    populated = file.commit(options.on_progress);
  }
  return populated ? Result<void>()
                   : Result<void>(make_error(populated.error().code,
                                             "l2.l2_bytes: " + populated.error().text,
                                             populated.error().sys_errno));
}

std::uint8_t* ArenaSet::frame(std::uint16_t kind, FrameId frame) {
  HC_CHECK(kind < kinds_.size());
  const Kind& spec = kinds_[kind];
  HC_CHECK(frame.value < spec.frame_count);
  const std::uint32_t arena = spec.first_arena + frame.value / spec.frames_per_arena;
  const std::uint64_t offset =
      std::uint64_t{frame.value % spec.frames_per_arena} * spec.frame_bytes;
  return arenas_[arena].region.writable_bytes().data() + offset;
}

std::uint64_t ArenaSet::generation_index(std::uint16_t kind, FrameId frame) const {
  HC_CHECK(kind < kinds_.size());
  return kinds_[kind].first_generation + frame.value;
}

std::uint64_t ArenaSet::bytes() const {
  std::uint64_t total = 0;
  for (const Arena& arena : arenas_) {
    total += std::uint64_t{arena.info.frame_count} * arena.info.frame_bytes;
  }
  return total;
}

bool ArenaSet::huge_pages() const {
  return std::all_of(arenas_.begin(), arenas_.end(),
                     [](const Arena& arena) { return arena.file.huge_pages(); });
}

}  // namespace hc
