// SPDX-License-Identifier: Apache-2.0
// disk_fixture: the Disk back ends to test, and blocks for their transfers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/os/pool_disk.h"
#include "daemon/os/uring_disk.h"
#include "proto/limits.h"
#include "support/catch.h"
#include "support/io_uring.h"
#include "support/temp_dir.h"

namespace hc::test {

// The modes of io_uring that this kernel gives us; none where it denies it. The flags are those of
// <linux/io_uring.h>, so that a mode which only the product fails to make is not skipped.
inline std::vector<UringMode> uring_modes() {
  const std::vector<std::pair<UringMode, std::uint32_t>> modes = {
      {UringMode::deferred, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN},
      {UringMode::cooperative, IORING_SETUP_COOP_TASKRUN},
      {UringMode::plain, 0}};
  std::vector<UringMode> found;
  for (const auto& [mode, flags] : modes) {
    if (const int refusal = io_uring_refusal(8, flags); refusal == 0) {
      found.push_back(mode);
    } else {
      WARN("not tested, the kernel denies io_uring (" << uring_mode_name(mode) << "): errno "
                                                     << refusal);
    }
  }
  return found;
}

// The threads, io_uring in each of its modes, and with registered files and memory.
inline std::vector<std::string> backends() {
  std::vector<std::string> names = {"threads"};
  for (const UringMode mode : uring_modes()) {
    names.emplace_back(uring_mode_name(mode));
  }
  if (names.size() > 1) {
    names.emplace_back("registered");
  }
  return names;
}

inline std::unique_ptr<VolumeDisk> make_backend(const std::string& name,
                                                const std::vector<std::string>& dirs,
                                                std::uint32_t lock_retry_ms = 0) {
  auto volumes = open_volumes(dirs, lock_retry_ms);
  REQUIRE(volumes);
  if (name == "threads") {
    auto event = EventFd::create();
    REQUIRE(event);
    return std::make_unique<PoolDisk>(std::move(*volumes), std::move(*event), 4U);
  }
  const UringMode mode = name == "defer_taskrun"  ? UringMode::deferred
                         : name == "coop_taskrun" ? UringMode::cooperative
                                                  : UringMode::plain;
  const bool registered = name == "registered";
  auto ring = registered ? Uring::create_best(UringDisk::entries_for(dirs.size()))
                         : Uring::create(UringDisk::entries_for(dirs.size()), mode);
  REQUIRE(ring);
  if (registered) {
    REQUIRE(ring->create_tables(UringTables::kFilesMax, UringTables::kBuffersMax));
  }
  return std::make_unique<UringDisk>(std::move(*volumes), std::move(*ring), registered);
}

inline std::unique_ptr<VolumeDisk> make_backend(const std::string& name, const std::string& dir,
                                                std::uint32_t lock_retry_ms = 0) {
  return make_backend(name, std::vector<std::string>{dir}, lock_retry_ms);
}

class Blocks {
 public:
  explicit Blocks(std::uint32_t size_bytes, std::uint8_t fill = 0)
      : data_(static_cast<std::uint8_t*>(std::aligned_alloc(kBlockBytes, size_bytes)), std::free),
        size_bytes_(size_bytes) {
    std::fill_n(data_.get(), size_bytes, fill);
  }
  std::uint8_t* data() const { return data_.get(); }
  std::span<std::uint8_t> span() const { return {data_.get(), size_bytes_}; }
  DiskBuffer buffer() const { return {data_.get(), size_bytes_}; }
  bool filled_with(std::uint8_t byte) const {
    const auto bytes = span();
    return std::all_of(bytes.begin(), bytes.end(), [byte](auto one) { return one == byte; });
  }

 private:
  std::unique_ptr<std::uint8_t, void (*)(void*)> data_;
  std::uint32_t size_bytes_;
};

// Submits and waits for all; the completions by ticket.
inline std::map<std::uint64_t, DiskCompletion> run_all(Disk& disk,
                                                       const std::vector<DiskRequest>& requests) {
  std::map<std::uint64_t, DiskCompletion> done;
  for (const DiskRequest& request : requests) {
    REQUIRE(disk.submit(request) == Code::ok);
  }
  std::vector<DiskCompletion> batch;
  while (disk.in_flight() > 0) {
    disk.wait();
    batch.clear();
    disk.poll(batch);
    REQUIRE_FALSE(batch.empty());
    for (const DiskCompletion& one : batch) {
      REQUIRE(done.emplace(one.ticket, one).second);
    }
  }
  return done;
}

}  // namespace hc::test
