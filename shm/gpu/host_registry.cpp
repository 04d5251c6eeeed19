// SPDX-License-Identifier: Apache-2.0
// host_registry: pieces of arenas, by address.
#include "shm/gpu/host_registry.h"

#include <algorithm>

#include "proto/check.h"

namespace hc {

namespace {

bool begins_after_address(const std::uint8_t* at, const std::span<std::uint8_t>& piece) {
  return at < piece.data();
}

}  // namespace

std::vector<std::span<std::uint8_t>> cut_at_frames(std::span<std::uint8_t> arena,
                                                   std::uint64_t frame_bytes,
                                                   std::uint64_t bytes_max) {
  HC_CHECK(frame_bytes > 0 && arena.size() % frame_bytes == 0);
  const std::uint64_t frames = std::max<std::uint64_t>(1, bytes_max / frame_bytes);
  std::vector<std::span<std::uint8_t>> pieces;
  while (!arena.empty()) {
    const std::size_t bytes = std::min<std::uint64_t>(frames * frame_bytes, arena.size());
    pieces.push_back(arena.first(bytes));
    arena = arena.subspan(bytes);
  }
  return pieces;
}

Result<void> HostRegistry::add_piece(const CudaDriver& driver, std::span<std::uint8_t> piece,
                                     std::uint64_t frame_bytes) {
  const CuResult result =
      driver->host_register(piece.data(), piece.size(), kCuHostPortable | kCuHostDeviceMap);
  if (result == kCuSuccess) {
    const std::lock_guard lock(mutex_);
    const auto after =
        std::upper_bound(pieces_.begin(), pieces_.end(), piece.data(), begins_after_address);
    pieces_.insert(after, piece);
    return {};
  }
  if (piece.size() == frame_bytes) {
    return driver.error("cuMemHostRegister of " + std::to_string(piece.size()) + " bytes", result);
  }
  for (const auto half : cut_at_frames(piece, frame_bytes, piece.size() / 2)) {
    HC_TRY_VOID(add_piece(driver, half, frame_bytes));  // else the rest would be refused as well
  }
  return {};
}

Result<void> HostRegistry::add(const CudaDriver& driver, std::span<std::uint8_t> arena,
                               std::uint64_t frame_bytes) {
  for (const auto piece : cut_at_frames(arena, frame_bytes, kRegisterBytesMax)) {
    HC_TRY_VOID(add_piece(driver, piece, frame_bytes));
  }
  return {};
}

void HostRegistry::drop(const CudaDriver& driver, std::span<std::uint8_t> arena) {
  std::vector<std::span<std::uint8_t>> dropped;
  {
    const std::lock_guard lock(mutex_);
    const auto inside = [&](const std::span<std::uint8_t>& piece) {
      return piece.data() >= arena.data() && piece.data() < arena.data() + arena.size();
    };
    std::copy_if(pieces_.begin(), pieces_.end(), std::back_inserter(dropped), inside);
    pieces_.erase(std::remove_if(pieces_.begin(), pieces_.end(), inside), pieces_.end());
  }
  for (const auto piece : dropped) {
    // After a device was lost it may say no; the pages go with the mapping then.
    static_cast<void>(driver->host_unregister(piece.data()));
  }
}

bool HostRegistry::covers(const std::uint8_t* begin, std::uint64_t size_bytes) const {
  const std::lock_guard lock(mutex_);
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), begin, begins_after_address);
  if (after == pieces_.begin()) {
    return false;
  }
  const std::span<std::uint8_t>& piece = *std::prev(after);
  return begin + size_bytes <= piece.data() + piece.size();
}

std::uint64_t HostRegistry::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const auto& piece : pieces_) {
    total += piece.size();
  }
  return total;
}

}  // namespace hc
