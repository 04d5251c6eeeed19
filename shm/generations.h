// SPDX-License-Identifier: Apache-2.0
// generations: one u64 per frame of L2 that tells a reader whether the frame changed under it.
//
// Owner thread: writer the reactor; readers any. Odd: the frame is being changed. Even: its bytes
// are whole and belong to exactly this number. Numbers only rise; a successor daemon goes on.
// Invariants: the writer's numbers are private, and the shared words are only written, so a client
// that could write them can deceive itself, not the daemon.
//
// A reader with a FrameRef (frame, generation) copies a payload like this:
//   G1 g = reader.read(i)                 acquire; g must be even and equal the FrameRef's
//   G2 copy the bytes                     may be torn; nothing may act on them yet
//   G3 reader.unchanged(i, g)             acquire fence, then the load; true: the copy is whole
// The writer's side of it:
//   F1 begin_change(i)                    odd, then a release fence: no byte is written before
//   F2 copy, or read from disk, into the frame
//   F3 end_change(i)                      release: the bytes are written before
// If G2 saw one byte of F2, then G3 sees F1. A copier that uses non-temporal stores ends with a
// store fence of its own (sfence), and a disk read is submitted after F1.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/result.h"
#include "shm/memory_file.h"
#include "shm/region.h"
#include "shm/unique_fd.h"

namespace hc {

class [[nodiscard]] GenerationsWriter {
 public:
  // A fresh file: every frame at 0. Errors: bad_argument (count 0), no_space, io_error.
  static Result<GenerationsWriter> create(std::uint64_t count);
  // Goes on with the file of a predecessor. A frame that it left odd is raised to the next even
  // number, which no FrameRef has ever named. Errors: those of MemoryFile::from_fd and Region.
  static Result<GenerationsWriter> adopt(UniqueFd fd, std::uint64_t count);

  void begin_change(std::uint64_t index);
  void end_change(std::uint64_t index);
  std::uint64_t current(std::uint64_t index) const;

  std::uint64_t count() const { return private_.size(); }
  Result<UniqueFd> readonly_fd() const { return file_.readonly_fd(); }
  int fd() const { return file_.fd(); }

 private:
  GenerationsWriter(MemoryFile file, Region region, std::uint64_t count);
  static Result<GenerationsWriter> over(MemoryFile file, std::uint64_t count);

  MemoryFile file_;
  Region region_;
  std::uint64_t* shared_;
  std::vector<std::uint64_t> private_;
};

class [[nodiscard]] GenerationsReader {
 public:
  // Errors: refused (seal, size), and those of Region.
  static Result<GenerationsReader> attach(UniqueFd fd, std::uint64_t count);

  // The number of a frame. An index outside reads as 1: always "being changed", never valid.
  std::uint64_t read(std::uint64_t index) const;
  // G3: to be called after the copy.
  bool unchanged(std::uint64_t index, std::uint64_t seen) const;

  std::uint64_t count() const { return count_; }

 private:
  GenerationsReader(Region region, std::uint64_t count);

  Region region_;
  const std::uint64_t* shared_;
  std::uint64_t count_;
};

constexpr bool generation_is_whole(std::uint64_t generation) {
  return (generation & 1) == 0;
}

}  // namespace hc
