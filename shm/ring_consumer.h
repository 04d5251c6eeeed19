// SPDX-License-Identifier: Apache-2.0
// ring_consumer: the reading side of a single-producer, single-consumer ring of 64-byte entries.
//
// Owner thread: one; the reactor for requests, the client library for completions.
// Invariants: the head is private; the shared head word is only written. An entry is copied once
// and only the copy is judged. A broken ring stays broken: it is never repaired.
//
// Interleaving of one batch (C here, P in ring_producer.h):
//   C1 load-acquire tail, once     pairs with P3
//   C2 judge the count             before any entry is touched
//   C3 copy entries                eight relaxed words each, to private memory
//   C4 store-release head, once    pairs with P1: the slots may be written again
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "proto/check.h"
#include "proto/limits.h"
#include "proto/messages.h"
#include "proto/status.h"
#include "shm/shared_word.h"

namespace hc {

template <RingEntry Entry, std::uint32_t kCapacity>
class RingConsumer {
 public:
  static_assert((kCapacity & (kCapacity - 1)) == 0 && kCapacity <= (1U << 15));

  // `head` lies in the file this side writes, `entries` and `tail` in the other one. The ring
  // starts where the head word stands, which only this side writes.
  RingConsumer(std::span<const std::uint8_t> entries, std::uint32_t& head,
               const std::uint32_t& tail)
      : words_(reinterpret_cast<const std::uint64_t*>(entries.data())),
        shared_head_(&head),
        shared_tail_(&tail),
        head_(load_relaxed(head)) {
    HC_CHECK(entries.size() >= std::size_t{kCapacity} * sizeof(Entry));
    HC_CHECK(reinterpret_cast<std::uintptr_t>(entries.data()) % sizeof(Entry) == 0);
  }

  // Copies up to out.size() entries and gives their slots back. ok: `taken` says how many, 0 if
  // there are none. protocol: the other side's index is impossible; end the session.
  // The caller sizes `out` by what it can answer: what it does not take stays in the ring.
  [[nodiscard]] Code take(std::span<Entry> out, std::uint32_t& taken) {
    taken = 0;
    const std::uint32_t count = load_acquire(*shared_tail_) - head_;
    // Unsigned: covers wraparound, a tail that went backwards, and garbage.
    if (broken_ || count > kCapacity) {
      broken_ = true;
      return Code::protocol;
    }
    const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>(count, out.size()));
    for (; taken < wanted; ++taken) {
      out[taken] = copy_entry_in<Entry>(words_ + std::size_t{head_ & (kCapacity - 1)} * 8);
      ++head_;
    }
    if (wanted != 0) {
      store_release(*shared_head_, head_);
    }
    return Code::ok;
  }

  // True if take() has something to say, be it entries or an error: the last look before a sleep.
  bool has_news() const { return broken_ || load_acquire(*shared_tail_) != head_; }

 private:
  const std::uint64_t* words_;
  std::uint32_t* shared_head_;
  const std::uint32_t* shared_tail_;
  std::uint32_t head_;
  bool broken_ = false;
};

using RequestConsumer = RingConsumer<RequestEntry, kRingEntries>;
using CompletionConsumer = RingConsumer<CompletionEntry, kCompletionEntries>;

}  // namespace hc
