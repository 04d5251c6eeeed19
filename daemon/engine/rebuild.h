// SPDX-License-Identifier: Apache-2.0
// rebuild: completes an index that was lost, damaged or older than the slabs, from the headers of
// the slots, while the store serves.
//
//   unscanned -> header read -> adopted (written, its flush and row follow) | free | limbo (a row
//                               that is being erased named it) | quarantined
//
// Owner: the reactor thread.
// Invariants:
//   - a slot is handed out or adopted only after its header was read in this run
//   - of two blobs of one part the later generation counts; what this run stores is later than both
//   - a blob that free_object or a clear has forgotten is not adopted
//   - nor is one in a slab whose first flush has failed: it may never have reached the disk
//   - a page that was evicted may come back: its bytes are right, only its slot was due
//   - where more pages are found than there are records, those that were written last stay, whole
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/engine/spiller.h"
#include "proto/blob_header.h"

namespace hc {

struct Works;

class Rebuild {
 public:
  struct Progress {
    std::uint64_t total = 0;
    std::uint64_t scanned = 0;
    std::uint64_t adopted = 0;
    std::uint64_t unreadable = 0;
  };

  // `named`: unscanned slots that a committed row still names; its erase waits in the commit.
  Rebuild(Works& works, const std::vector<SlotRef>& named);

  // Starts reads, and looks again at what waits.
  void turn();
  // What is left to be placed late goes on with the next turn of the engine, which is due at once.
  void begin_engine_turn() { late_left_ = kLateATurn; }
  bool wants_turn() const { return late_left_ == 0; }
  void on_read(const IoEvent& event);
  // Nothing more is read (a clear, a stop).
  void stop();
  bool idle() const { return in_flight_ == 0; }
  bool done() const;
  const Progress& progress() const { return progress_; }

 private:
  static constexpr std::uint32_t kReadsMax = 64;  // of a volume
  static constexpr std::uint32_t kLateATurn = 64;
  struct Read {
    SlotRef at;
    std::uint8_t tries = 0;
    bool in_use = false;
    bool overdue = false;
  };
  // A blob that was read, to be adopted or freed: at once, when a store that fills its part has
  // ended, or late.
  struct Found {
    SlotRef at;
    SpaceNo space{};
    BlobHeader header{};
  };
  // rebuild_reads.cpp
  bool answers(SlabId slab) const;
  bool can_read(SlabId slab) const;
  std::uint16_t volume_of_slab(SlabId slab) const;
  bool has_unread(SlabId slab);
  bool all_read();
  bool repeat_one();
  bool read_next();
  void start_read(std::uint32_t read);
  void end_read(std::uint32_t read);
  // rebuild.cpp
  void judge(const SlotRef& at, std::span<const std::uint8_t> block);
  std::optional<SpaceNo> space_of(const SlotRef& at, std::span<const std::uint8_t> block,
                                  BlobHeader& header) const;
  std::uint32_t part_of(SlabId slab) const;
  bool place(const Found& found);
  void raise_access(PageId page, std::uint64_t access);
  // rebuild_late.cpp
  void place_late();
  void sort_late();
  bool make_record(const Family& family, std::uint64_t access);
  bool stands(const Found& found) const;
  void adopt(PageId page, const Found& found);
  void leave_slot(PartRef ref);
  void settle_free(const SlotRef& at);
  void look_again();
  std::uint32_t newer_neighbour(SlabId slab, std::uint64_t access);
  std::uint64_t access_of(std::uint32_t generation) const;

  Works& works_;
  std::vector<std::vector<bool>> named_;                          // by slab and slot
  std::vector<std::map<std::uint64_t, std::uint32_t>> by_access_;  // by slab: access to slot
  std::vector<Read> reads_;
  std::vector<std::uint32_t> free_reads_;
  std::vector<std::uint32_t> reads_of_;  // by volume: in use
  std::vector<std::uint32_t> repeats_;  // reads that neither the kernel nor a failed volume took
  std::vector<Found> waiting_;
  std::vector<Found> late_;             // of pages that found no record; decided when all are known
  bool late_is_sorted_ = false;         // then the pages that were written last are at the end
  std::uint32_t late_left_ = kLateATurn;  // that may be placed in this turn of the engine
  std::vector<std::uint32_t> cursors_;  // by slab: the slots before it were read, or are being read
  std::uint16_t first_slab_ = 0;        // nothing is left to begin in the slabs before it
  std::uint16_t slabs_;
  std::uint32_t newest_;                // generation when the rebuild began
  std::uint32_t in_flight_ = 0;
  Progress progress_;
};

}  // namespace hc
