// SPDX-License-Identifier: Apache-2.0
// watch: looks into the engine after every call and compares with the look before; evictions it
// judges at the moment they are decided.
//
//   law 2  a durable part goes only because its page was forgotten, its slot was damaged, or its
//          page was evicted: the oldest idle one where room was needed
//   law 3  a slot that is being written is named by no committed row; `walk`: every frame and slot
//          has exactly one owner or is free
//   cold start load reads only header blocks, only of slots that rows of the same shard name
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/world.h"

namespace hc::sim {

// Of a law that is broken.
inline std::string name_of(const char* what, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return std::string(what) + " (" + std::to_string(a) + ", " + std::to_string(b) + ", " +
         std::to_string(c) + ")";
}

class Watch final : public EvictionObserver {
 public:
  explicit Watch(World& world) : world_(world) {}

  void observe();
  void evicting(PageId page, SlabId slab, EvictionCause cause) override;
  void sparing(PageId page, SlabId slab) override;
  // Law 3 over the whole catalog. `at_rest` also expects that nothing is in flight or held.
  void walk(bool at_rest);
  // At rest with an index that takes rows: no slot waits for a commit that nobody asks for.
  void walk_limbo();

  // Around a crash: what must be there again after a load.
  void remember_durable();
  void check_recovered();
  void forget_remembered() { remembered_.clear(); }
  bool remembers() const { return !remembered_.empty(); }
  // While a clear of the store runs, slots of forgotten pages wait in the slabs for the reset.
  void set_clearing(bool clearing) { clearing_ = clearing; }

 private:
  struct SeenPage {
    PageHash hash{};
    SpaceNo space{};
    std::uint64_t last_access = 0;
    bool linked = false;
    bool idle = false;
    bool in_use = false;
  };
  struct SeenSlot {
    SlotState state = SlotState::free;
    Generation generation{};
  };
  struct SeenPart {
    SlotId slot = kNoSlot;
    SlabId slab = kNoSlab;
    L3State l3 = L3State::absent;
    Generation generation{};
    std::uint64_t unsettled = 0;  // its barrier; 0: settled
    bool held_back = false;
    bool reading = false;         // from its slot, into a frame
  };
  struct Remembered {
    std::uint32_t version = 0;
    std::uint32_t page = 0;
    std::uint32_t part = 0;
    Generation generation{};
    std::string file;
    std::uint16_t volume = 0;
    std::uint64_t offset_bytes = 0;
    std::uint64_t slot_bytes = 0;
    bool forget_pending = false;
  };

  void check_slots();
  void check_settled(PageId id);
  void check_became_durable(PageId id, std::uint32_t part);
  void check_generations();
  bool was_taken_from(SlabId slab);
  std::vector<bool> spared_;  // by slab, since the look before: a slot of the reserve was taken
  void check_reserve();
  void check_steps();
  void check_page(PageId id);
  void check_lost_dirty(PageId id, std::uint32_t part, bool page_gone);
  void trace_lost(const SeenPart& was, bool page_gone);
  void check_lost_part(PageId id, std::uint32_t part, bool page_gone);
  void look_for_lowered();
  static std::uint32_t whole_steps(const Slab& slab);
  void check_slot_is_needed(SlabId slab);
  void check_oldest(SlabId slab, PageId page);
  bool was_evicted(const SeenPage& seen) const;
  void check_reads();
  void take_snapshot();
  void see_page(PageId id);
  void walk_frames(Family& family, bool at_rest);
  void walk_slots();
  void walk_slab(SlabId id, const std::vector<std::uint32_t>& owners);
  void walk_pages(bool at_rest);
  bool waits_for_volume(PageId id) const;
  bool gave_way(const Remembered& was);
  void walk_parts();
  void walk_held_back();
  void walk_status();
  void walk_quotas(bool at_rest);
  bool stands_for(const Remembered& was, PartRef ref);
  bool marks_unknown();
  void check_recovered_pages();
  void check_header(PageId id, std::uint32_t part);
  void remember_unproved();
  bool never_acknowledged(Generation generation) const;
  bool part_stands(PageId id, std::uint32_t at);
  bool any_header_stands(PageId id);
  bool header_stands(const Slab& slab, const SeenPart& was, const SeenPage& seen);

  World& world_;
  std::vector<SeenPage> pages_;
  std::vector<SeenPart> parts_;
  std::vector<std::vector<SeenSlot>> slots_;
  std::vector<std::uint32_t> usable_;  // by slab
  std::vector<std::pair<SpaceNo, PageHash>> evicted_;  // since the last look
  bool clearing_ = false;
  std::vector<std::vector<StepState>> steps_;  // by slab
  bool lowered_ = false;            // a start found more than the budget of this life
  std::uint64_t sequence_ = 0;      // of the model, at the last look
  static std::uint64_t commits_failed(const Counters& counters) {
    return counters.commit_failures + counters.flush_failures;
  }
  std::uint64_t commit_failures_ = 0;
  std::uint64_t spill_failures_ = 0;
  std::uint64_t unreachable_ = 0;
  std::vector<Remembered> remembered_;
  bool mark_failed_ = false;  // in the life that ended
  // What a crash left unfinished may be found by a rebuild, with a payload that is torn.
  std::set<std::uint32_t> durable_once_;  // generations that were durable at the last kill
  std::uint32_t run_begins_ = 0;          // generations of this run are later
  bool rebuilt_once_ = false;
  std::uint64_t adopted_ = 0;             // slots, at the last look
  bool serving_ = false;
  bool was_serving_ = false;                      // at the look before
  std::uint32_t generation_highest_ = 0;
  std::uint32_t generation_floor_ = 0;            // of the lives before this one
  std::set<std::array<std::uint32_t, 3>> unproved_;  // page, part, generation
};

}  // namespace hc::sim
