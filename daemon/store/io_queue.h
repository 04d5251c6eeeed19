// SPDX-License-Identifier: Apache-2.0
// io_queue: blob I/O as pieces of at most 1 MiB, bounded by bytes in flight on each volume, reads
// before writes.
//
// Owner: the reactor thread.
// Invariants:
//   - the header buffer of a job and the caller's payload belong to the job until its event
//   - every started job ends in exactly one event
//   - pieces in flight on a volume never name more than its bound of bytes (one piece is always let
//     through, so that a bound below a piece can't stop the queue); a volume at its bound holds
//     nobody else's pieces back
#pragma once

#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "daemon/os/disk.h"
#include "proto/blob_header.h"
#include "proto/limits.h"

namespace hc {

enum class IoKind : std::uint8_t {
  write_blob,
  read_blob,
  read_header,
  zero_header,
  write_raw,  // no header: `payload` as it stands
  sync,
  allocate,  // the range gets its space
  punch,     // the range gives its space back
};

struct IoEvent {
  IoKind kind = IoKind::sync;
  Code code = Code::ok;
  int sys_errno = 0;
  std::uint64_t cookie = 0;
  // read_blob, read_header: the 4 KiB header block; valid until the next call of poll().
  std::span<const std::uint8_t> header_block;

  // The device said no. Otherwise the kernel could not take the request this time (memory, a
  // request broken off), or there is no room: that says nothing about the slot.
  bool device_failed() const {
    return code == Code::io_error && sys_errno != ENOMEM && sys_errno != ECANCELED &&
           sys_errno != EAGAIN && sys_errno != EINTR;
  }
};

// A blob's place and its payload in memory. The payload's frame has room for the padded size.
struct BlobPlace {
  FileId file{};
  std::uint64_t offset_bytes = 0;     // of the slot
  std::uint8_t* payload = nullptr;    // aligned to kBlockBytes
  std::uint64_t padded_bytes = 0;     // payload rounded up to kBlockBytes
};

struct FileRange {
  FileId file{};
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

class IoQueue {
 public:
  // The same bound for every volume, or one for each.
  IoQueue(Disk& disk, std::uint64_t inflight_bytes_max);
  IoQueue(Disk& disk, const std::vector<std::uint64_t>& inflight_bytes_max);

  // True when a job of this direction can be started now.
  bool can_start(IoKind kind) const;

  // `fill` writes the header block in the job's private buffer. Needs can_start.
  template <typename Fill>
  void start_write(const BlobPlace& place, std::uint64_t cookie, Fill&& fill) {
    const std::uint32_t job = new_job(IoKind::write_blob, place, cookie);
    fill(header_buffer(job));
    enqueue(job);
  }
  void start_read(const BlobPlace& place, std::uint64_t cookie);
  void start_read_header(FileId file, std::uint64_t offset_bytes, std::uint64_t cookie);
  void start_zero_header(FileId file, std::uint64_t offset_bytes, std::uint64_t cookie);
  void start_write_raw(const BlobPlace& place, std::uint64_t cookie);
  void start_sync(FileId file, std::uint64_t cookie);
  // `kind` is allocate or punch.
  void start_space(IoKind kind, const FileRange& range, std::uint64_t cookie);

  void poll(std::vector<IoEvent>& out);
  void wait() { disk_.wait(); }
  std::uint32_t jobs() const { return jobs_in_use_; }
  std::uint64_t bytes_in_flight() const { return bytes_in_flight_; }

 private:
  struct Job {
    BlobPlace place;
    std::uint64_t cookie = 0;
    std::uint64_t next_byte = 0;     // of the blob; the next piece starts here
    std::uint64_t total_bytes = 0;
    std::uint64_t length_bytes = 0;  // of a range
    std::uint32_t pieces = 0;        // in flight
    IoKind kind = IoKind::sync;
    Code code = Code::ok;
    int sys_errno = 0;
    bool in_use = false;
  };

  std::uint32_t new_job(IoKind kind, const BlobPlace& place, std::uint64_t cookie);
  std::span<std::uint8_t> header_buffer(std::uint32_t job);
  void enqueue(std::uint32_t job);
  void pump();
  void pump(std::deque<std::uint32_t>& queue);
  bool submit_piece(std::uint32_t job);
  void complete_piece(const DiskCompletion& completion, std::vector<IoEvent>& out);
  static bool is_read(IoKind kind);
  static bool has_header(IoKind kind);
  static bool moves_bytes(IoKind kind);

  struct FreeAligned {
    void operator()(std::uint8_t* memory) const;
  };

  Disk& disk_;
  std::uint64_t bytes_in_flight_ = 0;
  struct Lane {
    std::deque<std::uint32_t> reads;   // jobs with pieces still to submit
    std::deque<std::uint32_t> writes;
    std::uint64_t bytes_in_flight = 0;
    std::uint64_t bytes_max = 0;
  };
  Lane& lane_of(FileId file) { return lanes_[volume_of(file)]; }

  std::vector<Lane> lanes_;                    // by volume
  std::uint32_t jobs_in_use_ = 0;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> free_jobs_;
  std::vector<std::uint32_t> ended_jobs_;      // freed at the next poll
  std::vector<std::uint64_t> piece_bytes_;     // by piece ticket
  std::vector<std::uint32_t> piece_job_;
  std::vector<std::uint32_t> free_pieces_;
  std::deque<std::uint32_t> syncs_;
  std::unique_ptr<std::uint8_t, FreeAligned> headers_;
  std::vector<DiskCompletion> completions_;
};

}  // namespace hc
