// SPDX-License-Identifier: Apache-2.0
// superblock_file: the store's identity, epochs and generations, kept in two alternating copies.
//
// Owner: the reactor thread.
// Invariants:
//   - a generation is handed out only below the durable `generation_high`
//   - a change is durable once `durable_sequence()` has reached the sequence that changed it
//   - at most one write is in flight; changes made meanwhile ride the next one
//   - generations are numbers on a circle: which of two is earlier follows from their distance
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/os/clock.h"
#include "daemon/os/disk.h"
#include "daemon/store/aligned_buffer.h"
#include "daemon/store/io_queue.h"
#include "proto/blob_header.h"
#include "proto/superblock.h"

namespace hc {

// Less than half of the circle ahead is later. Blobs of half a circle ago are long overwritten or
// named by no row.
constexpr bool generation_is_before(std::uint32_t generation, std::uint32_t mark) {
  return static_cast<std::int32_t>(generation - mark) < 0;
}

class SuperblockFile {
 public:
  // Opens the superblock of the volume, or creates one with this uuid. The file carries the
  // volume's lock: a second daemon is refused. Blocking.
  static Result<std::unique_ptr<SuperblockFile>> open(Disk& disk, const Uuid& new_uuid);

  const Superblock& current() const { return *current_; }
  bool created() const { return created_; }
  BlobSeed seed_of(SpaceNo space) const;
  std::optional<SpaceNo> find_space(const SpaceId& space) const;

  // Changes take effect in memory at once and ride the next write.
  Result<SpaceNo> add_space(const SpaceId& space);  // no_space at kSpaceEpochsMax
  // `forget_spaces` also ends the numbers of spaces: only when nobody holds one.
  void raise_epoch(bool forget_spaces);
  void raise_space_epoch(SpaceNo space);
  // Ends the number of one space; another one may get it. Only when no row and no blob of this
  // epoch of the store carries it.
  void drop_space(SpaceNo space);
  // Volumes besides the home that have been claimed.
  bool has_volume(std::uint16_t volume) const { return (current_->volumes >> volume & 1) != 0; }
  void set_volume(std::uint16_t volume, bool claimed);
  // The next generation, or nothing while its block is not durable yet.
  std::optional<Generation> next_generation();
  // Whatever was written so far has this generation or an earlier one.
  Generation newest_generation() const { return Generation{next_generation_ - 1}; }

  // Writes what has changed and waits for it. Start and stop only; busy while a write is in
  // flight.
  Result<void> write_blocking_now();
  // Takes back every change that is not durable. What a failed write may have left on the disk is
  // superseded by the next write.
  void restore_durable();

  // Asynchronous writes through the queue: the caller passes the queue's events of `cookie` on.
  bool wants_write(Instant now) const { return write_waits() && now >= not_before_; }
  // A write waits for nothing but the time, after one that failed: until retry_at().
  bool write_waits() const { return !in_flight_ && current_->sequence > durable_sequence_; }
  Instant retry_at() const { return not_before_; }
  void start_write(IoQueue& io, std::uint64_t cookie);  // needs can_start(write_raw)
  // A write that failed is tried again from `retry_at` on.
  void on_event(IoQueue& io, const IoEvent& event, Instant retry_at);
  // Writes through the queue that failed since the last one that did not.
  std::uint32_t failures_in_row() const { return failures_; }
  // The write in flight has had its time; it goes on.
  void note_overdue() { overdue_ = true; }
  // Nobody knows when the next change becomes durable: the last write failed, or has no answer.
  bool is_stalled() const { return overdue_ || failures_ > 0; }
  std::uint64_t sequence() const { return current_->sequence; }
  std::uint64_t durable_sequence() const { return durable_sequence_; }
  bool is_durable() const { return durable_sequence_ == current_->sequence; }
  bool in_flight() const { return in_flight_; }

 private:
  SuperblockFile(Disk& disk, FileId file);
  void changed() { ++current_->sequence; }
  void reserve_generations();
  void stage();
  void finish_write(Code code);

  Disk& disk_;
  FileId file_;
  std::unique_ptr<Superblock> current_;
  std::unique_ptr<Superblock> durable_;
  AlignedBuffer staging_;
  std::uint64_t staged_sequence_ = 0;
  std::uint32_t staged_generation_high_ = 0;
  std::uint64_t durable_sequence_ = 0;
  std::uint32_t next_generation_ = 1;
  std::uint32_t durable_generation_high_ = 0;
  std::uint32_t next_copy_ = 0;
  std::uint32_t failures_ = 0;
  Instant not_before_{};
  bool in_flight_ = false;
  bool overdue_ = false;
  bool created_ = false;
};

}  // namespace hc
