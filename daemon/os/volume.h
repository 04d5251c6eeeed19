// SPDX-License-Identifier: Apache-2.0
// volume: one directory of large preallocated files: open, lock, allocate, list, remove.
//
// Owner: the reactor thread. The part that both Disk back ends share; all calls block. Files are
// opened with O_DIRECT where the file system takes it. Invariant: a name is open at most once.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <optional>
#include <string>
#include <vector>

#include "daemon/os/disk.h"
#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

struct VolumeOptions {
  std::string dir;                       // made if absent; its parent must exist
  std::uint32_t lock_retry_ms = 60'000;  // how long an exclusive open waits for a predecessor
  std::uint16_t number = 0;              // goes into the ids of the files
};

class Volume {
 public:
  // Refuses network file systems: their locks and flushes do not hold what is promised here.
  static Result<Volume> open_dir(VolumeOptions options);

  Result<FileId> open(const FileSpec& spec);
  Result<void> close(FileId file);
  Result<void> remove(const std::string& name);
  Result<std::vector<FileInfo>> list() const;
  std::uint64_t size_bytes(FileId file) const { return at(file).size_bytes; }

  Result<void> read_now(FileId file, std::uint64_t offset_bytes, std::span<std::uint8_t> out) const;
  Result<void> write_now(FileId file, std::uint64_t offset_bytes,
                         std::span<const std::uint8_t> bytes) const;  // synced on return
  Result<std::optional<std::uint64_t>> next_data(FileId file, std::uint64_t offset_bytes) const;
  Result<void> allocate_now(FileId file, std::uint64_t offset_bytes,
                            std::uint64_t length_bytes) const;
  Result<void> punch_now(FileId file, std::uint64_t offset_bytes,
                         std::uint64_t length_bytes) const;

  int fd(FileId file) const { return at(file).fd.get(); }
  // Brackets each request, so that a close under I/O is caught.
  void begin_io(FileId file) { ++at(file).in_flight; }
  void end_io(FileId file);

  std::uint16_t number() const { return options_.number; }
  const std::string& dir() const { return options_.dir; }

 private:
  struct File {
    UniqueFd fd;
    std::string name;
    std::uint64_t size_bytes = 0;
    std::uint32_t in_flight = 0;
    std::uint8_t incarnation = 0;  // in the id: a stale id is caught
  };
  struct Opened {
    UniqueFd fd;
    bool created = false;
  };

  Volume(VolumeOptions options, UniqueFd dir)
      : options_(std::move(options)), dir_(std::move(dir)) {}

  const File& at(FileId file) const;
  File& at(FileId file) { return const_cast<File&>(static_cast<const Volume&>(*this).at(file)); }
  bool is_open(const std::string& name) const;
  FileId install(File file);

  Result<Opened> open_or_create(const FileSpec& spec);
  Result<Opened> open_locked(const FileSpec& spec);
  int open_at(const std::string& name, int extra_flags);
  Result<std::uint64_t> allocate(int fd, const FileSpec& spec) const;
  Result<void> extend(int fd, std::uint64_t old_bytes, const FileSpec& spec) const;
  Result<void> run_now(const DiskRequest& request) const;
  std::string label(const std::string& name) const {
    return "volume " + options_.dir + ": " + name;
  }

  VolumeOptions options_;
  UniqueFd dir_;
  std::vector<File> files_;
  bool direct_ = true;
};

}  // namespace hc
