// SPDX-License-Identifier: Apache-2.0
// arena_view: sorted arenas per kind.
#include "client/arena_view.h"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "proto/blob_header.h"
#include "shm/memory_file.h"

namespace hc {

namespace {

Error broken(const ArenaInfo& info, const char* why) {
  return make_error(Code::protocol, "arena of kind " + std::to_string(info.kind) + " at frame " +
                                        std::to_string(info.first_frame) + ": " + why);
}

}  // namespace

ArenaView::ArenaView(const SpaceDescriptor& space, std::uint64_t generation_count)
    : generation_count_(generation_count) {
  for (const KindSpec& kind : space.kinds) {
    payload_bytes_.push_back(kind.payload_bytes);
  }
}

Result<void> ArenaView::add(const ArenaInfo& info, UniqueFd fd) {
  if (info.kind >= payload_bytes_.size()) {
    return broken(info, "no such kind");
  }
  if (info.frame_count == 0 || info.frame_count > kNone32 - info.first_frame) {
    return broken(info, "frames out of range");
  }
  if (info.frame_bytes < blob_bytes(payload_bytes_[info.kind]) ||
      info.frame_bytes % kBlockBytes != 0) {
    return broken(info, "frames are too small for the kind");
  }
  if (info.generation_index > generation_count_ ||
      info.frame_count > generation_count_ - info.generation_index) {
    return broken(info, "generations out of range");
  }
  auto& arenas = arenas_[info.kind];
  const auto after = std::upper_bound(arenas.begin(), arenas.end(), info.first_frame, begins_after);
  const bool meets_next =
      after != arenas.end() && after->info.first_frame - info.first_frame < info.frame_count;
  const bool meets_previous =
      after != arenas.begin() &&
      info.first_frame - std::prev(after)->info.first_frame < std::prev(after)->info.frame_count;
  if (meets_next || meets_previous) {
    return broken(info, "frames stand in two arenas");
  }
  const std::uint64_t bytes = std::uint64_t{info.frame_count} * info.frame_bytes;
  auto file = MemoryFile::from_fd(std::move(fd), {.size_bytes = bytes});
  HC_TRY(file);
  RegionOptions options;
  options.size_bytes = bytes;
  options.hint_huge_pages = true;
  options.read_only = (::fcntl(file->fd(), F_GETFL) & O_ACCMODE) != O_RDWR;
  auto region = Region::map(file->fd(), options);
  HC_TRY(region);
  arenas.insert(after, Arena{info, std::move(*region)});
  return {};
}

const ArenaView::Arena* ArenaView::arena_of(std::uint16_t kind, std::uint32_t frame) const {
  if (kind >= payload_bytes_.size()) {
    return nullptr;
  }
  const auto& arenas = arenas_[kind];
  const auto after = std::upper_bound(arenas.begin(), arenas.end(), frame, begins_after);
  if (after == arenas.begin()) {
    return nullptr;
  }
  const Arena& arena = *std::prev(after);
  return frame - arena.info.first_frame < arena.info.frame_count ? &arena : nullptr;
}

std::optional<ArenaView::Place> ArenaView::find(std::uint16_t kind, std::uint32_t frame) const {
  const Arena* const arena = arena_of(kind, frame);
  if (arena == nullptr) {
    return std::nullopt;
  }
  const std::uint32_t index = frame - arena->info.first_frame;
  const std::uint64_t at = std::uint64_t{index} * arena->info.frame_bytes + kBlockBytes;
  return Place{arena->region.bytes().data() + at, arena->info.generation_index + index};
}

std::uint8_t* ArenaView::writable(std::uint16_t kind, std::uint32_t frame) {
  const Arena* const found = arena_of(kind, frame);
  if (found == nullptr || found->region.read_only()) {
    return nullptr;
  }
  Arena& arena = arenas_[kind][static_cast<std::size_t>(found - arenas_[kind].data())];
  const std::uint32_t index = frame - arena.info.first_frame;
  const std::uint64_t at = std::uint64_t{index} * arena.info.frame_bytes + kBlockBytes;
  return arena.region.writable_bytes().data() + at;
}

std::vector<ArenaView::Memory> ArenaView::writable_memory() {
  std::vector<Memory> memory;
  for (auto& arenas : arenas_) {
    for (Arena& arena : arenas) {
      if (!arena.region.read_only()) {
        memory.push_back({arena.region.writable_bytes(), arena.info.frame_bytes});
      }
    }
  }
  return memory;
}

bool ArenaView::begins_after(std::uint32_t frame, const Arena& arena) {
  return frame < arena.info.first_frame;
}

std::size_t ArenaView::count() const {
  std::size_t count = 0;
  for (const auto& arenas : arenas_) {
    count += arenas.size();
  }
  return count;
}

}  // namespace hc
