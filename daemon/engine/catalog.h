// SPDX-License-Identifier: Apache-2.0
// catalog: every page the node knows, with the state of each of its parts in L2 and L3.
// Each family has its own range of page records, with as many parts per page as it has.
//
// Owner: the reactor thread.
// Invariants:
//   - a page in the table is not doomed; a doomed page can't be found any more and goes when
//     nothing refers to it
//   - `holds` counts leases and operations that keep the page's frames; `busy` counts parts whose
//     frame or slot some copy, read or write is using
//   - a page is in its family's L2 eviction order exactly when it has a resident part and
//     holds == busy == 0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/engine/page_table.h"
#include "daemon/pool/lru_list.h"
#include "proto/ids.h"

namespace hc {

// A part of a page in the catalog; the parts of a page stand together.
using PartRef = StrongId<struct PartRefTag, std::uint32_t>;

enum class L2State : std::uint8_t { absent, filling, resident };
enum class L3State : std::uint8_t { absent, queued, writing, written, durable };

struct Part {
  FrameId frame = kNoFrame;
  SlotId slot = kNoSlot;
  SlotId read_slot = kNoSlot;               // pinned by the read that fills the frame
  SlabId slab = kNoSlab;                    // of the slot, or of the queue it waits in
  SlabId read_slab = kNoSlab;
  Generation generation = kNoGeneration;
  std::uint32_t payload_crc = 0;            // of a resident part
  std::uint32_t first_waiter = kNone32;     // item of the operation table
  std::uint32_t unsettled_since_ms = 0;     // for the age of the oldest undurable part
  std::uint32_t flush_failures = 0;         // of its slab when its write began
  std::uint64_t barrier = 0;                // order in which parts became unsettled
  L2State l2 = L2State::absent;
  L3State l3 = L3State::absent;
  bool reading = false;                     // a disk read fills the frame
  bool spill_wanted = false;                // spill when the fill is done; else it is held back
  bool wiped = false;                       // doomed by free_object: its header is zeros
  std::uint8_t repeats = 0;                 // of its spill after a failed flush, or of its wipe
};

// Who waits until a forgotten page can't come back: an operation, or an operator's order.
struct FreeToken {
  std::uint32_t id = kNone32;
  std::uint32_t use = 0;
};

// How a page was forgotten, which decides what its slots need before they are free.
enum class Doom : std::uint8_t {
  none,
  free_object,  // headers wiped and flushed, row erased
  space_clear,  // row erased; the space's new epoch has made the headers unreadable
  store_clear,  // nothing: the whole index and every slab are reset
};

struct Page {
  PageHash hash{};
  SpaceNo space{};
  std::uint32_t holds = 0;
  std::uint32_t busy = 0;
  std::uint64_t last_access = 0;
  FreeToken free_token;                     // doomed: who is told when it can't come back
  std::uint16_t owner = 0;
  FamilyNo family{};                        // of the record, whoever uses it
  bool in_use = false;
  bool doomed = false;                      // unlinked; goes when nothing refers to it
  Doom doom = Doom::none;
  bool slots_gone = false;                  // doomed: slots and row have been handed on
  std::uint8_t parts_held_back = 0;
  std::uint8_t zeroes_left = 0;             // doomed by free_object: headers being wiped
  bool dirty = false;                       // in the queue of rows to put
  std::uint32_t leases_without_quota = 0;   // as often as such sessions' leases name it
};

class Catalog {
 public:
  // Families come in the order of their numbers. No reference to a page or part lives on.
  void add_family(std::uint32_t pages_max, std::uint32_t parts_per_page);
  std::uint16_t families() const { return static_cast<std::uint16_t>(families_.size()); }

  PageId find(SpaceNo space, const PageHash& hash) const;
  // A new page in the table; kNoPage when the family's records are all in use.
  PageId create(FamilyNo family, SpaceNo space, const PageHash& hash);
  // Takes the page out of the table; its record stays until `destroy`.
  void unlink(PageId page);
  void destroy(PageId page);  // unlinked, nothing refers to it

  Page& page(PageId id) { return pages_[id.value]; }
  const Page& page(PageId id) const { return pages_[id.value]; }
  Part& part(PartRef ref) { return parts_[ref.value]; }
  const Part& part(PartRef ref) const { return parts_[ref.value]; }
  PartRef ref(PageId page, std::uint32_t part) const {
    const Records& at = families_[pages_[page.value].family.value];
    return PartRef{at.first_part + (page.value - at.first_page) * at.parts_per_page + part};
  }
  PageId page_of(PartRef ref) const {
    const Records& at = records_of(ref);
    return PageId{at.first_page + (ref.value - at.first_part) / at.parts_per_page};
  }
  std::uint32_t part_of(PartRef ref) const {
    const Records& at = records_of(ref);
    return (ref.value - at.first_part) % at.parts_per_page;
  }
  std::uint32_t parts_per_page(PageId page) const {
    return families_[pages_[page.value].family.value].parts_per_page;
  }

  bool has_resident_part(PageId page) const;
  bool has_stored_part(PageId page) const;    // written or durable
  bool has_any_part(PageId page) const;       // in any state but absent

  // The L2 eviction order follows from the page's state; call after every change of it.
  void update_l2_order(PageId page);
  LruList& l2_order(FamilyNo family) { return families_[family.value].l2_order; }

  std::uint64_t tick() { return ++clock_; }
  std::uint64_t clock() const { return clock_; }
  void set_clock(std::uint64_t clock) { clock_ = clock; }

  std::uint32_t pages_max() const { return static_cast<std::uint32_t>(pages_.size()); }
  std::uint32_t parts_max() const { return static_cast<std::uint32_t>(parts_.size()); }
  std::uint32_t pages_free(FamilyNo family) const {
    return static_cast<std::uint32_t>(families_[family.value].free_pages.size());
  }
  bool empty() const;  // no record is in use
  std::uint32_t pages_linked() const { return static_cast<std::uint32_t>(table_.size()); }

  // Parts between their store and their durability, oldest first.
  LruList& unsettled() { return unsettled_; }
  const LruList& unsettled() const { return unsettled_; }

  // Parts that only memory has because the spill policy holds them back, oldest first. A part is in
  // one of the two lists at most.
  const LruList& held_back() const { return held_back_; }
  std::uint32_t pages_held_back() const { return pages_held_back_; }
  void hold_back(PartRef ref);
  void stop_holding_back(PartRef ref);  // does nothing for other parts

 private:
  struct Records {
    std::uint32_t first_page = 0;
    std::uint32_t first_part = 0;
    std::uint32_t pages = 0;
    std::uint32_t parts_per_page = 0;
    std::vector<std::uint32_t> free_pages;
    LruList l2_order;
  };
  const Records& records_of(PartRef ref) const {
    std::size_t family = families_.size() - 1;
    while (ref.value < families_[family].first_part) {
      --family;
    }
    return families_[family];
  }
  static std::uint64_t key_hash(SpaceNo space, const PageHash& hash);

  std::vector<Records> families_;
  std::vector<Page> pages_;
  std::vector<Part> parts_;
  PageTable table_{0};
  LruList unsettled_{0};
  LruList held_back_{0};
  std::uint32_t pages_held_back_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace hc
