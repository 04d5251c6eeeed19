// SPDX-License-Identifier: Apache-2.0
// disk: the seam to files. Requests in, completions out; nothing above it calls the kernel.
//
// Owner: the reactor thread (start-up included). A request's buffers belong to the disk until its
// completion was reaped, whatever timed out or died meanwhile. Completions come in any order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/ids.h"
#include "proto/limits.h"
#include "proto/result.h"

namespace hc {

enum class DiskOp : std::uint8_t {
  read,
  write,
  sync,      // data of the whole file reaches stable storage (fdatasync); no buffers
  allocate,  // the range gets space of its own: no write there ends with no_space; no buffers
  punch,     // the range gives its space back and reads as zeros; no buffers
};

struct DiskBuffer {
  std::uint8_t* data = nullptr;  // aligned to kBlockBytes
  std::uint32_t size_bytes = 0;  // a multiple of kBlockBytes
};

struct DiskRequest {
  DiskOp op = DiskOp::read;
  FileId file{};
  std::uint64_t offset_bytes = 0;         // a multiple of kBlockBytes
  std::array<DiskBuffer, 2> buffers{};    // in order; the second may be empty
  std::uint64_t ticket = 0;               // the caller's; returned with the completion
  std::uint64_t length_bytes = 0;         // of the range; allocate and punch only

  std::uint64_t size_bytes() const {
    return std::uint64_t{buffers[0].size_bytes} + buffers[1].size_bytes;
  }
};

struct DiskCompletion {
  std::uint64_t ticket = 0;
  // ok: every byte was transferred; otherwise io_error, no_space, or unsupported: the file system
  // has no such operation on ranges.
  Code code = Code::ok;
  int sys_errno = 0;
};

struct FileSpec {
  std::string name;                // relative to the volume directory, no slash
  std::uint64_t size_bytes = 0;    // 0: as it is; otherwise preallocated (never sparse) to it
  bool create = false;             // create when absent; otherwise not_found
  bool exclusive = false;          // flock on the descriptor; refused when someone else holds it
  std::uint16_t volume = 0;        // which directory of the store
  bool sparse = false;             // `size_bytes` without space: ranges get theirs by `allocate`
};

struct FileInfo {
  std::string name;
  std::uint64_t size_bytes = 0;
};

// A file's id says on which volume it is.
inline constexpr std::uint32_t kFileVolumeShift = 24;
constexpr std::uint16_t volume_of(FileId file) {
  return static_cast<std::uint16_t>(file.value >> kFileVolumeShift);
}
static_assert(kVolumesMax <= 1U << (32 - kFileVolumeShift));

class Disk {
 public:
  virtual ~Disk() = default;

  // Blocking; used at start, at the first attach of a family, in a clear and at stop only.
  virtual Result<FileId> open(const FileSpec& spec) = 0;
  virtual Result<void> close(FileId file) = 0;          // nothing may be in flight on it
  // A file that is not open; ok when absent.
  virtual Result<void> remove(const std::string& name, std::uint16_t volume) = 0;
  virtual Result<std::vector<FileInfo>> list(std::uint16_t volume) = 0;
  virtual std::uint64_t size_bytes(FileId file) const = 0;
  virtual std::uint16_t volume_count() const = 0;
  virtual std::string volume_name(std::uint16_t volume) const = 0;  // for the log

  // Memory that requests will name, mapped until it is dropped; nothing on it is in flight then. A
  // hint: a back end may register it with the kernel, other memory works as well.
  virtual void add_memory(std::span<std::uint8_t> /*bytes*/) {}
  virtual void drop_memory(std::span<std::uint8_t> /*bytes*/) {}
  // Blocking transfers of headers, beside whatever is in flight: O_DIRECT rules hold for both.
  // write_now returns after the data has been synced.
  virtual Result<void> read_now(FileId file, std::uint64_t offset_bytes,
                                std::span<std::uint8_t> out) = 0;
  virtual Result<void> write_now(FileId file, std::uint64_t offset_bytes,
                                 std::span<const std::uint8_t> bytes) = 0;
  // Blocking `allocate` and `punch`, at start only.
  virtual Result<void> allocate_now(FileId file, std::uint64_t offset_bytes,
                                    std::uint64_t length_bytes) = 0;
  virtual Result<void> punch_now(FileId file, std::uint64_t offset_bytes,
                                 std::uint64_t length_bytes) = 0;

  // Blocking, at start only: where, from here on, the file may have been written to; nothing:
  // nowhere. Ranges that only have their space may be passed over.
  virtual Result<std::optional<std::uint64_t>> next_data(FileId file,
                                                         std::uint64_t offset_bytes) = 0;

  // Queues one request; busy when kDiskRequestsMax of its volume are in flight. Short transfers,
  // EINTR and EAGAIN are continued below this seam, with a bound.
  virtual Code submit(const DiskRequest& request) = 0;
  // Starts what was queued and collects what is done, without waiting; appends to `out`.
  virtual void poll(std::vector<DiskCompletion>& out) = 0;
  // Waits until at least one completion can be polled. With nothing in flight it returns at once.
  virtual void wait() = 0;
  virtual std::uint32_t in_flight() const = 0;
};

}  // namespace hc
