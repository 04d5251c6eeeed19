// SPDX-License-Identifier: Apache-2.0
// fake_work: what waits in a stream, and how far an event has come, as plain memory.
//
// Owner thread: of a queue, the worker of its stream takes and any thread adds, under the mutex of
// the stream. Once the process is dead, the helper that outlives it reads on (fake_outlive). It
// runs no library code, so the numbers are plain and only touched by the compiler's atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hc::fake {

// A record of an event is a number; each has a place of its own, so that a later record in a fast
// stream does not pass for an earlier one in a slow stream.
struct FakeCell {
  static constexpr std::uint32_t kPlaces = 64;

  std::uint32_t recorded = 0;  // the latest record
  std::uint32_t changes = 0;   // who waits sleeps on this word
  std::uint32_t reached[kPlaces] = {};
};

struct FakePiece {
  void* to;
  const void* from;
  std::size_t bytes;
};

struct FakeWork {
  enum Kind : int { kCall, kCopy, kFill, kRecord, kWaitEvent, kWriteValue, kWaitValue };

  Kind kind = kCall;
  void (*call)(void*) = nullptr;
  void* argument = nullptr;
  const FakePiece* pieces = nullptr;  // done from the last to the first
  std::size_t piece_count = 0;
  void* address = nullptr;  // of a fill and of values
  std::size_t bytes = 0;
  std::uint64_t value = 0;  // to write, to wait for, to fill with; of a record, its number
  unsigned flags = 0;
  FakeCell* cell = nullptr;
  std::shared_ptr<const void> hold;  // what the pointers above point to
};

struct FakeQueue {
  // As many launches as a real stream takes before the call blocks.
  static constexpr std::uint64_t kSlots = 1024;

  FakeWork* slots = nullptr;
  std::uint64_t head = 0;  // first that is not there yet
  std::uint64_t tail = 0;  // first that is not done
  long delay_us = 0;
  bool is_stalled = false;
};

// Marks a record as reached and wakes those who wait for it.
void reach(FakeCell* cell, std::uint32_t number);
bool is_reached(const FakeCell* cell, std::uint32_t number);
void wait_reached(FakeCell* cell, std::uint32_t number);
// CUstreamWaitValue_flags.
bool value_holds(std::uint64_t now, std::uint64_t value, unsigned flags);

}  // namespace hc::fake
