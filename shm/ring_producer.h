// SPDX-License-Identifier: Apache-2.0
// ring_producer: the writing side of a single-producer, single-consumer ring of 64-byte entries.
//
// Owner thread: one; the client library for requests, the reactor for completions.
// Invariants: the tail is private; the shared tail word is only written. The other side's head is
// outside data: it is loaded into a private copy and judged, never trusted.
//
// Interleaving of one entry (P here, C in ring_consumer.h):
//   P1 load-acquire head      pairs with C4: the slot's old entry was copied out before
//   P2 store the entry        eight relaxed words
//   P3 store-release tail     pairs with C1: whoever sees the tail sees the entry
#pragma once

#include <cstdint>
#include <span>

#include "proto/check.h"
#include "proto/limits.h"
#include "proto/messages.h"
#include "proto/status.h"
#include "shm/shared_word.h"

namespace hc {

template <RingEntry Entry, std::uint32_t kCapacity>
class RingProducer {
 public:
  static_assert((kCapacity & (kCapacity - 1)) == 0 && kCapacity <= (1U << 15));

  // `entries` and `tail` lie in the file this side writes, `head` in the other one. The ring
  // starts where the tail word stands, which only this side writes.
  RingProducer(std::span<std::uint8_t> entries, std::uint32_t& tail, const std::uint32_t& head)
      : words_(reinterpret_cast<std::uint64_t*>(entries.data())),
        shared_tail_(&tail),
        shared_head_(&head),
        tail_(load_relaxed(tail)),
        published_(tail_),
        head_(tail_ - kCapacity) {
    HC_CHECK(entries.size() >= std::size_t{kCapacity} * sizeof(Entry));
    HC_CHECK(reinterpret_cast<std::uintptr_t>(entries.data()) % sizeof(Entry) == 0);
  }

  // ok: the entry is written, but not visible before publish().
  // busy: the ring is full. protocol: the other side's index is impossible; the ring is dead.
  [[nodiscard]] Code stage(const Entry& entry) {
    std::uint32_t room = 0;
    if (const Code code = room_for_more(room); code != Code::ok) {
      return code;
    }
    if (room == 0) {
      return Code::busy;
    }
    copy_entry_out(words_ + std::size_t{tail_ & (kCapacity - 1)} * 8, entry);
    ++tail_;
    return Code::ok;
  }

  // Makes every staged entry visible at once. Returns how many; then the doorbell is due.
  std::uint32_t publish() {
    const std::uint32_t count = tail_ - published_;
    if (count != 0) {
      store_release(*shared_tail_, tail_);
      published_ = tail_;
    }
    return count;
  }

  // Entries that can be staged now. Codes as of stage(). The shared head is loaded only when the
  // last known one leaves less room than the caller needs to go on, so that the two sides seldom
  // share its cache line; a caller that needs several places and asks for one would wait forever.
  [[nodiscard]] Code room_for_more(std::uint32_t& room, std::uint32_t needed = 1) {
    room = 0;
    if (broken_) {
      return Code::protocol;
    }
    if (kCapacity - (tail_ - head_) < needed) {
      const std::uint32_t head = load_acquire(*shared_head_);
      // Unsigned: covers wraparound, a head that ran ahead of the tail, and garbage.
      if (tail_ - head > kCapacity) {
        broken_ = true;
        return Code::protocol;
      }
      head_ = head;
    }
    room = kCapacity - (tail_ - head_);
    return Code::ok;
  }

 private:
  std::uint64_t* words_;
  std::uint32_t* shared_tail_;
  const std::uint32_t* shared_head_;
  std::uint32_t tail_;
  std::uint32_t published_;
  std::uint32_t head_;  // last judged head; starts "full", so that the first use loads it
  bool broken_ = false;
};

using RequestProducer = RingProducer<RequestEntry, kRingEntries>;
using CompletionProducer = RingProducer<CompletionEntry, kCompletionEntries>;

}  // namespace hc
