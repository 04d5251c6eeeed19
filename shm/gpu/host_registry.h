// SPDX-License-Identifier: Apache-2.0
// host_registry: which memory of frames is registered with the driver, and so copied to and from
// without a stop in between.
//
// Owner: the keeper thread adds and drops, with a context current; lanes ask. One mutex.
// Invariants: no frame lies in two registrations, because a copy across two is refused.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "proto/result.h"
#include "shm/cuda/cuda_driver.h"

namespace hc {

// From 512 GiB on drivers fail, and one long registration stalls whoever else wants the driver.
inline constexpr std::uint64_t kRegisterBytesMax = 64ULL << 30;

// Cuts an arena into pieces of whole frames, at most `bytes_max` each (one frame at least).
std::vector<std::span<std::uint8_t>> cut_at_frames(std::span<std::uint8_t> arena,
                                                   std::uint64_t frame_bytes,
                                                   std::uint64_t bytes_max);

class HostRegistry {
 public:
  // Registers what it can. A piece that the driver refuses is tried again in halves, down to one
  // frame: busy processes are refused large ones now and then. Error: the first piece that was
  // refused for good; frames of it are copied all the same, more slowly.
  Result<void> add(const CudaDriver& driver, std::span<std::uint8_t> arena,
                   std::uint64_t frame_bytes);
  // What of it is registered; nothing of it is being copied any more.
  void drop(const CudaDriver& driver, std::span<std::uint8_t> arena);

  bool covers(const std::uint8_t* begin, std::uint64_t size_bytes) const;
  std::uint64_t bytes() const;

 private:
  Result<void> add_piece(const CudaDriver& driver, std::span<std::uint8_t> piece,
                         std::uint64_t frame_bytes);

  mutable std::mutex mutex_;
  std::vector<std::span<std::uint8_t>> pieces_;  // by address
};

}  // namespace hc
