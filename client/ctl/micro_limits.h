// SPDX-License-Identifier: Apache-2.0
// micro_limits: what the machine gives without us: copies, fresh memory, wake-ups, flushes.
//
// Owner thread: the bench's only thread; what a measurement starts has ended when it returns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/ctl/latency.h"
#include "proto/result.h"

namespace hc {

// Two buffers in memory files, the kind of memory that pages are copied between, written once.
class CopyBuffers {
 public:
  static Result<std::unique_ptr<CopyBuffers>> make(std::uint64_t size_bytes);
  ~CopyBuffers();
  CopyBuffers(const CopyBuffers&) = delete;
  CopyBuffers& operator=(const CopyBuffers&) = delete;

  // memcpy of everything by `threads` threads, each in pieces of `piece_bytes`; bytes a second.
  double copy(std::uint32_t threads, std::uint64_t piece_bytes);

 private:
  explicit CopyBuffers(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}
  std::uint64_t size_bytes_;
  std::uint8_t* from_ = nullptr;
  std::uint8_t* to_ = nullptr;
};

// memset of a new memory file by one thread; bytes a second.
Result<double> set_fresh_memory(std::uint64_t size_bytes);

enum class PingPong : std::uint8_t { futex, spin };
// Round trips between this process and a child over two words of shared memory; the median in ns.
Result<double> ping_pong(PingPong how, std::uint32_t round_trips);

// How long fdatasync of the file takes now.
Result<std::uint64_t> time_fdatasync(const std::string& path);

// Writes pieces into a file that was written before, at a given rate, and flushes it at an
// interval: what a store does, with nothing of ours. O_DIRECT, from one thread.
struct RawWriter {
  std::string file;
  std::uint64_t span_bytes = 0;      // from the file's start; a multiple of the piece
  std::uint64_t piece_bytes = 0;     // a multiple of 4096
  double pieces_per_s = 0;
  std::uint64_t window_ns = 0;
  std::uint64_t flush_interval_ns = 0;
};
struct RawStall {
  std::uint64_t longest_ns = 0;  // between the ends of two writes, a flush in between or not
  std::uint64_t flushes = 0;
};
Result<RawStall> longest_stall(const RawWriter& writer);

}  // namespace hc
