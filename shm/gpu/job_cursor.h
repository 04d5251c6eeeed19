// SPDX-License-Identifier: Apache-2.0
// job_cursor: cuts a copy into the pieces that one call of the driver moves each.
//
// Owner thread: the lane that has the job. Pure.
#pragma once

#include <cstdint>

#include "shm/gpu/copy_job.h"

namespace hc {

// Of one batch: more descriptors have crashed a driver, more bytes keep others from the engine.
inline constexpr std::size_t kBatchPiecesMax = 4096;
inline constexpr std::uint64_t kBatchBytesMax = 8ULL << 20;

struct CopyPiece {
  std::uint64_t offset = 0;     // from the mapping's begin
  std::uint8_t* host = nullptr;
  std::uint64_t size_bytes = 0;
};

class JobCursor {
 public:
  explicit JobCursor(const CopyJob& job) : job_(job) {}

  bool at_end() const { return run_ == job_.runs.size(); }
  // The next piece: runs that follow each other in the client's memory are one, because in the
  // frame all do. At most `bytes_max` of it. Not at the end.
  CopyPiece next(std::uint64_t bytes_max) {
    CopyPiece piece{job_.runs[run_].address + in_run_, job_.frame + done_, 0};
    while (!at_end() && piece.size_bytes < bytes_max &&
           job_.runs[run_].address + in_run_ == piece.offset + piece.size_bytes) {
      const std::uint64_t left = job_.runs[run_].size_bytes - in_run_;
      const std::uint64_t room = bytes_max - piece.size_bytes;
      const std::uint64_t taken = left < room ? left : room;
      piece.size_bytes += taken;
      in_run_ = taken == left ? 0 : in_run_ + taken;
      run_ += taken == left ? 1U : 0U;
    }
    done_ += piece.size_bytes;
    return piece;
  }

 private:
  const CopyJob& job_;  // which outlives this
  std::size_t run_ = 0;
  std::uint64_t in_run_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace hc
