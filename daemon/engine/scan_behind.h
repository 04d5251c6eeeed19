// SPDX-License-Identifier: Apache-2.0
// scan_behind: after a lazy load, reads the header of every slot that was taken on the word of the
// index, while the store serves.
//
// Owner: the reactor thread.
// Invariants: at most kInFlightMax reads, so that reloads go first; a slot is pinned and its page
// busy while its header is read; a verdict counts only if the part still stands in that slot with
// that generation.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/store/io_queue.h"

namespace hc {

struct Works;

class ScanBehind {
 public:
  struct Entry {
    PartRef ref{};
    SlabId slab{};
    SlotId slot{};
    Generation generation{};
  };
  struct Progress {
    std::uint64_t scanned = 0;
    std::uint64_t dropped = 0;
  };

  ScanBehind(Works& works, std::vector<Entry> entries);

  void turn();  // starts reads
  void on_scan(const IoEvent& event);
  // Nothing more is read (a clear, a stop).
  void stop();
  bool idle() const { return in_flight_ == 0; }
  bool done() const { return idle() && repeats_.empty() && next_ == entries_.size(); }
  const Progress& progress() const { return progress_; }

 private:
  bool still_there(const Entry& entry) const;
  bool can_read() const;
  void read(std::uint32_t index);
  void finish(std::uint32_t index, const IoEvent& event);
  void judge(const Entry& entry, const IoEvent& event);

  Works& works_;
  std::vector<Entry> entries_;
  std::vector<std::uint8_t> tries_;
  std::vector<std::uint32_t> repeats_;  // reads that the kernel could not take
  std::size_t next_ = 0;
  std::uint32_t in_flight_ = 0;
  Progress progress_;
};

}  // namespace hc
