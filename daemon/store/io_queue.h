// SPDX-License-Identifier: Apache-2.0
// io_queue: blob I/O as pieces of at most 1 MiB, bounded by bytes in flight on each volume, reads
// before writes, with a time by which the device must have answered.
//
// Owner: the reactor thread.
// Invariants:
//   - the header block and the payload of a job belong to the job until its event
//   - every started job ends in exactly one event; one that the device has not answered in time
//     has an `overdue` notice before, and still owns its memory and its place until its event
//   - pieces in flight on a volume never name more than its bound of bytes (one piece is always let
//     through, so that a bound below a piece can't stop the queue)
//   - volumes share nothing here: one that hangs holds up nobody but itself
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/os/clock.h"
#include "daemon/os/disk.h"
#include "daemon/store/volume_health.h"
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
  allocate,   // the range gets its space
  punch,      // the range gives its space back
};

struct IoEvent {
  IoKind kind = IoKind::sync;
  Code code = Code::ok;
  int sys_errno = 0;
  std::uint64_t cookie = 0;
  // The job was not answered in time (a notice: it goes on, code is timed_out), or it had such a
  // notice before and has ended now.
  bool overdue = false;
  bool was_overdue = false;
  // The volume has failed: nothing was asked of it.
  bool not_tried = false;
  // It failed among other failures, which speak of the volume.
  bool volume_fault = false;
  // read_blob, read_header: the 4 KiB header block; in the job's own memory it is valid until the
  // next call of poll().
  std::span<const std::uint8_t> header_block{};

  // The device said no to this very request, which speaks against the slot.
  bool device_failed() const {
    return !not_tried && !volume_fault && device_refused(code, sys_errno);
  }
};

// A blob's place and its payload in memory. The payload's frame has room for the padded size.
struct BlobPlace {
  FileId file{};
  std::uint64_t offset_bytes = 0;     // of the slot
  std::uint8_t* payload = nullptr;    // aligned to kBlockBytes
  std::uint64_t padded_bytes = 0;     // payload rounded up to kBlockBytes
  // One block. Right before the payload it makes the blob one piece of memory. Null: the job's own.
  std::uint8_t* header = nullptr;
};

struct FileRange {
  FileId file{};
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

struct IoQueueOptions {
  std::uint64_t inflight_bytes_max = 96ULL << 20;  // of each volume
  std::uint32_t timeout_ms = 30'000;
  std::vector<std::uint64_t> inflight_bytes{};     // by volume; empty: the same for each
};

class IoQueue {
 public:
  IoQueue(Disk& disk, const IoQueueOptions& options);
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;
  ~IoQueue();

  // Opens a file on every volume for the probes of one that has failed. Blocking; a volume where
  // that does not work is not probed, its own requests are.
  void open_probes();

  // True when a job of this direction can be started on the volume now.
  bool can_start(IoKind kind, std::uint16_t volume) const;
  // A job of this direction would not be tried now: the volume has failed.
  bool refuses(IoKind kind, std::uint16_t volume) const;

  // `fill` writes the header block. Needs can_start.
  template <typename Fill>
  void start_write(const BlobPlace& place, std::uint64_t cookie, Fill&& fill) {
    const std::uint32_t job = new_job(IoKind::write_blob, place, cookie);
    fill(header_block(job));
    enqueue(job);
  }
  void start_read(const BlobPlace& place, std::uint64_t cookie);
  void start_read_header(FileId file, std::uint64_t offset_bytes, std::uint64_t cookie);
  void start_zero_header(FileId file, std::uint64_t offset_bytes, std::uint64_t cookie);
  void start_write_raw(const BlobPlace& place, std::uint64_t cookie);
  void start_sync(FileId file, std::uint64_t cookie);
  // `kind` is allocate or punch. Nothing else may be in flight on the range.
  void start_space(IoKind kind, const FileRange& range, std::uint64_t cookie);

  void poll(Instant now, std::vector<IoEvent>& out);
  void wait() { disk_.wait(); }
  // poll() has an event without waiting for the disk.
  bool ready() const { return !finished_.empty(); }
  // When poll() has something to do although nothing completes: a notice or a probe.
  Instant next_due() const;
  std::uint32_t jobs() const { return jobs_in_use_; }
  std::uint64_t bytes_in_flight(std::uint16_t volume = 0) const {
    return lanes_[volume].bytes_in_flight;
  }
  // Jobs that have had their notice and not yet ended.
  std::uint32_t overdue() const { return overdue_; }
  // Jobs that had their notice, or whose failure is the volume's and not their own.
  std::uint64_t unanswered() const { return unanswered_; }
  std::uint16_t volume_count() const { return static_cast<std::uint16_t>(lanes_.size()); }
  const VolumeHealth& health(std::uint16_t volume) const { return lanes_[volume].health; }

 private:
  struct Job {
    BlobPlace place;
    std::uint64_t cookie = 0;
    std::uint64_t next_byte = 0;     // of the blob; the next piece starts here
    std::uint64_t total_bytes = 0;
    std::uint64_t length_bytes = 0;  // of a range
    std::uint64_t use = 0;           // counts the jobs of this place in the table
    std::uint32_t pieces = 0;        // in flight
    IoKind kind = IoKind::sync;
    Code code = Code::ok;
    int sys_errno = 0;
    bool in_use = false;
    bool probe = false;              // ours: its end is told to the health only
    bool overdue = false;
    bool not_tried = false;
    bool volume_fault = false;
    bool trial = false;              // of a failed volume that has no file for probes
  };
  struct Piece {
    std::uint64_t bytes = 0;
    std::uint32_t job = 0;
  };
  // A job since its first piece was submitted.
  struct Watch {
    std::uint32_t job = 0;
    std::uint64_t use = 0;
    Instant since{};
  };
  struct Lane {
    explicit Lane(std::string name) : health(std::move(name)) {}
    std::deque<std::uint32_t> syncs;  // jobs with pieces still to submit
    std::deque<std::uint32_t> reads;
    std::deque<std::uint32_t> writes;
    std::deque<Watch> watched;        // oldest first; those that have ended leave at the front
    std::vector<std::uint32_t> free_jobs;
    std::vector<std::uint32_t> free_pieces;
    std::uint64_t bytes_in_flight = 0;
    std::uint64_t bytes_max = 0;
    VolumeHealth health;
    std::optional<FileId> probe_file;
  };

  std::uint32_t new_job(IoKind kind, const BlobPlace& place, std::uint64_t cookie);
  std::span<std::uint8_t> header_block(std::uint32_t job);
  void enqueue(std::uint32_t job);
  Lane& lane_of(const Job& job) { return lanes_[volume_of(job.place.file)]; }
  void pump();
  void pump(std::deque<std::uint32_t>& queue);
  bool refuse(std::uint32_t job);
  bool submit_piece(std::uint32_t job);
  DiskRequest request_of(std::uint32_t job, std::uint64_t bytes);
  void complete_piece(const DiskCompletion& completion);
  void watch(Lane& lane, std::uint32_t job);
  bool is_over(const Watch& watch) const;
  void tell_overdue(Lane& lane, std::vector<IoEvent>& out);
  void probe(std::uint16_t volume);
  void free_ended();
  void emit_finished(std::vector<IoEvent>& out);
  static bool is_read(IoKind kind);
  static IoDirection direction_of(IoKind kind);
  static bool has_header(IoKind kind);
  static bool moves_bytes(IoKind kind);

  struct FreeAligned {
    void operator()(std::uint8_t* memory) const;
  };

  Disk& disk_;
  IoQueueOptions options_;
  Instant now_{};                              // of the last poll
  std::uint32_t jobs_in_use_ = 0;              // without probes
  std::uint32_t overdue_ = 0;
  std::uint64_t unanswered_ = 0;
  std::vector<Job> jobs_;                      // kJobsMax of each volume, volume after volume
  std::vector<Piece> pieces_;                  // by ticket
  std::vector<Lane> lanes_;                    // by volume
  std::vector<std::uint32_t> finished_;        // jobs whose event is due
  std::vector<std::uint32_t> ended_jobs_;      // freed at the next poll
  std::unique_ptr<std::uint8_t, FreeAligned> headers_;
  std::vector<DiskCompletion> completions_;
};

}  // namespace hc
