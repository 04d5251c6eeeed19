// SPDX-License-Identifier: Apache-2.0
// recovery: cold start `load`: rebuilds the durable floor from the index and the slot headers.
//
//   rows of the index -> candidates (slab, slot, page) -> one header read per candidate slot
//   -> live slots, eviction order, dropped rows
//
// Owner: the reactor thread. Runs before any spill, reload or commit; reads only slots that a row
// of the same slab names, so a shard never looks at another shard's slots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/scan_behind.h"
#include "daemon/engine/works.h"

namespace hc {

struct LoadProgress {
  std::uint64_t slots_total = 0;    // candidate slots to read
  std::uint64_t slots_scanned = 0;
  std::uint64_t live = 0;           // parts kept
  std::uint64_t dropped = 0;        // parts whose header disagreed
  std::uint64_t rows_damaged = 0;   // rows that did not verify
  std::uint64_t pages = 0;          // pages with at least one live part
  bool rebuilding = false;          // slots that no row names are being read
  std::uint64_t adopted = 0;        // ... and held a blob
};

class Recovery {
 public:
  // Lazily: a slot that one row alone names is taken on that row's word; take_unread() says which.
  Recovery(Works& works, bool lazily) : works_(works), lazily_(lazily) {}

  // Reads the index (blocking), adds its spaces and with them their families, and compares it with
  // the marks of the slabs. `damage`: why the index was set aside before, or empty.
  Result<void> start(Disk& disk, const std::string& damage);
  // Slots may hold what no row names. Every named slot is read first, and the rest is unscanned.
  bool incomplete() const { return !incomplete_.empty(); }
  // After the last turn of an incomplete one: unscanned slots that rows name which are erased.
  const std::vector<SlotRef>& named_unscanned() const { return named_unscanned_; }
  // Issues header reads; true when everything has been judged and installed.
  bool turn();
  void on_scan(const IoEvent& event);
  const LoadProgress& progress() const { return progress_; }
  // After the last turn: the slots whose headers nobody has read.
  std::vector<ScanBehind::Entry> take_unread() { return std::move(unread_); }

 private:
  struct Candidate {
    SlabId slab{};
    SlotId slot{};
    PartRef ref{};
    Generation generation{};
    bool live = false;
  };
  Result<void> add_noted_spaces();
  Result<void> compare_with_marks(Disk& disk, const std::string& damage);
  void note_missing_notes();
  Result<void> read_index();
  void add_row(const IndexRow& row);
  void judge(Candidate& candidate, const IoEvent& event);
  std::uint16_t volume_of_next();
  void note_unknown_slots(const IndexRow& row);
  struct Place {
    std::uint32_t part = 0;
    SlabId slab{};
  };
  std::optional<Place> place_of(const Family& family, const IndexRowPart& part) const;
  void install();
  void install_slab(SlabId slab);
  Result<void> settle_space(Disk& disk);
  Result<void> find_written_steps(Disk& disk);
  void report() const;
  void add_unknown_slots(SlabId slab, const std::vector<Slab::Live>& live,
                         std::vector<SlotId>& limbo);

  void choose_reads();
  std::uint32_t end_of_slot(std::uint32_t first) const;

  Works& works_;
  bool lazily_;
  LoadProgress progress_;
  std::vector<Candidate> candidates_;     // sorted by slab and slot
  std::vector<std::uint32_t> firsts_;     // first candidate of each slot that is read
  std::vector<ScanBehind::Entry> unread_;
  std::size_t next_read_ = 0;
  std::size_t reads_done_ = 0;
  std::uint64_t clock_ = 0;
  std::string incomplete_;                // why
  std::vector<SlotRef> named_unscanned_;
  std::vector<std::uint32_t> repeats_;    // reads that the kernel could not take, by first
  std::vector<std::uint8_t> tries_;       // of each read
  std::vector<IndexErase> unknown_rows_;  // damaged, or of spaces or pages we can't hold
  std::vector<std::vector<bool>> used_;   // by slab and step: what stays
  std::vector<SlotRef> unknown_slots_;    // named by such rows until their erase is committed
};

}  // namespace hc
