// SPDX-License-Identifier: Apache-2.0
// volume_disk: what all Disk back ends have in common: the files of every volume, and an event to
// sleep on.
//
// Owner: the reactor thread. A back end adds how requests are run. A volume's number is its place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/os/disk.h"
#include "daemon/os/volume.h"
#include "daemon/os/waitable_disk.h"

namespace hc {

class VolumeDisk : public WaitableDisk {
 public:
  Result<FileId> open(const FileSpec& spec) final {
    auto file = numbered(spec.volume).open(spec);
    if (file) {
      file_opened(*file, volume(*file).fd(*file));
    }
    return file;
  }
  Result<void> close(FileId file) final {
    file_closing(file);
    return volume(file).close(file);
  }
  Result<void> remove(const std::string& name, std::uint16_t number) final {
    return numbered(number).remove(name);
  }
  Result<std::vector<FileInfo>> list(std::uint16_t number) final { return numbered(number).list(); }
  std::uint64_t size_bytes(FileId file) const final { return volume(file).size_bytes(file); }
  std::uint16_t volume_count() const final { return static_cast<std::uint16_t>(volumes_.size()); }
  std::string volume_name(std::uint16_t number) const final { return volumes_[number].dir(); }
  Result<void> read_now(FileId file, std::uint64_t offset_bytes,
                        std::span<std::uint8_t> out) final {
    return volume(file).read_now(file, offset_bytes, out);
  }
  Result<void> write_now(FileId file, std::uint64_t offset_bytes,
                         std::span<const std::uint8_t> bytes) final {
    return volume(file).write_now(file, offset_bytes, bytes);
  }
  Result<void> allocate_now(FileId file, std::uint64_t offset_bytes,
                            std::uint64_t length_bytes) final {
    return volume(file).allocate_now(file, offset_bytes, length_bytes);
  }
  Result<void> punch_now(FileId file, std::uint64_t offset_bytes,
                         std::uint64_t length_bytes) final {
    return volume(file).punch_now(file, offset_bytes, length_bytes);
  }
  Result<std::optional<std::uint64_t>> next_data(FileId file, std::uint64_t offset_bytes) final {
    return volume(file).next_data(file, offset_bytes);
  }

 protected:
  explicit VolumeDisk(std::vector<Volume> volumes) : volumes_(std::move(volumes)) {
    HC_CHECK(!volumes_.empty() && volumes_.size() <= kVolumesMax);
    in_flight_on_.resize(volumes_.size());
    for (std::size_t i = 0; i < volumes_.size(); ++i) {
      HC_CHECK(volumes_[i].number() == i);
    }
  }

  // For a back end that keeps files in a table of its own.
  virtual void file_opened(FileId /*file*/, int /*fd*/) {}
  virtual void file_closing(FileId /*file*/) {}

  // In flight on each volume, so that one that hangs takes nobody's place.
  bool is_full(FileId file) const { return in_flight_on_[volume_of(file)] == kDiskRequestsMax; }
  void begin(FileId file) {
    volume(file).begin_io(file);
    ++in_flight_on_[volume_of(file)];
  }
  void end(FileId file) {
    volume(file).end_io(file);
    HC_CHECK(in_flight_on_[volume_of(file)] > 0);
    --in_flight_on_[volume_of(file)];
  }

  Volume& volume(FileId file) { return numbered(volume_of(file)); }
  const Volume& volume(FileId file) const {
    HC_CHECK(volume_of(file) < volumes_.size());
    return volumes_[volume_of(file)];
  }

 private:
  Volume& numbered(std::uint16_t number) {
    HC_CHECK(number < volumes_.size());
    return volumes_[number];
  }

  std::vector<Volume> volumes_;
  std::vector<std::uint32_t> in_flight_on_;  // by volume: submitted, not yet polled
};

// Opens the directories in order; an error names the first that can't be used.
Result<std::vector<Volume>> open_volumes(const std::vector<std::string>& dirs,
                                         std::uint32_t lock_retry_ms);

}  // namespace hc
