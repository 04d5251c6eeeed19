// SPDX-License-Identifier: Apache-2.0
// admission: which parts go to disk, and when: the spill policy.
//
//   write_through   at once
//   selective       once a rank has used the page often enough, or its store hints that it will be
//                   used; a page that memory drops before that never reaches the disk
//   write_back      when memory is needed, or when too much of it is not on disk; before a stop
//
// A flush sends everything to disk under each of them.
//
// Owner: the reactor thread.
// Invariants:
//   - a part that is held back is resident, not stored and not on its way to the disk; nobody waits
//     for it
//   - under write_through nothing is held back; under write_back nothing that is held back is
//     dropped from memory, unless its page is forgotten or leaves both tiers
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/engine/operation.h"
#include "daemon/engine/use_sketch.h"

namespace hc {

struct Works;

class Admission {
 public:
  explicit Admission(Works& works) : works_(works) {}

  void open();  // the catalog is there, or has a new family
  // Counts one use of a page by an operation. True when what is held back of it, and what the
  // operation stores of it, goes to disk now.
  bool use(const Op& op, PageId page);
  // The part is resident and not stored: it stays so for now.
  void hold_back(PartRef ref);
  // The part is no longer one that is held back: forgotten, or its frame goes.
  void let_go(PartRef ref);
  // What is held back of the page goes to disk.
  void spill(PageId page);
  // ... of every page, and what is being stored now. True when there was any.
  bool spill_all();
  // A stop writes what must not be lost with the memory.
  bool spill_for_stop();
  // Memory must not drop the page before it is on disk.
  bool keeps(PageId page) const;
  std::uint64_t bytes_held_back() const { return bytes_; }

 private:
  std::uint64_t use_key(const Op& op, PageId page) const;
  bool is_on_disk(PageId page) const;

  Works& works_;
  std::unique_ptr<UseSketch> uses_;    // selective
  std::vector<std::vector<std::uint32_t>> frames_;  // by family and kind: of parts held back
  std::uint64_t bytes_ = 0;            // of their payloads
};

}  // namespace hc
