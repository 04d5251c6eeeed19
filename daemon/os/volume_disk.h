// SPDX-License-Identifier: Apache-2.0
// volume_disk: what both Disk back ends have in common: the files, and an event to sleep on.
//
// Owner: the reactor thread. A back end adds how requests are run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/os/disk.h"
#include "daemon/os/volume.h"
#include "daemon/os/waitable.h"

namespace hc {

class VolumeDisk : public Disk, public Waitable {
 public:
  Result<FileId> open(const FileSpec& spec) final { return volume_.open(spec); }
  Result<void> close(FileId file) final { return volume_.close(file); }
  Result<void> remove(const std::string& name, std::uint16_t /*volume*/) final {
    return volume_.remove(name);
  }
  Result<std::vector<FileInfo>> list(std::uint16_t /*volume*/) final { return volume_.list(); }
  std::uint64_t size_bytes(FileId file) const final { return volume_.size_bytes(file); }
  Result<void> read_now(FileId file, std::uint64_t offset_bytes,
                        std::span<std::uint8_t> out) final {
    return volume_.read_now(file, offset_bytes, out);
  }
  Result<void> write_now(FileId file, std::uint64_t offset_bytes,
                         std::span<const std::uint8_t> bytes) final {
    return volume_.write_now(file, offset_bytes, bytes);
  }
  Result<void> punch_now(FileId file, std::uint64_t offset_bytes,
                         std::uint64_t length_bytes) final {
    return volume_.punch_now(file, offset_bytes, length_bytes);
  }

  // "io_uring (defer_taskrun)", "threads (8)": for the log and for status.
  virtual std::string description() const = 0;

 protected:
  explicit VolumeDisk(Volume volume) : volume_(std::move(volume)) {}

  Volume volume_;
};

}  // namespace hc
