// SPDX-License-Identifier: Apache-2.0
// works: the machines that move parts and steps between states, and how they reach each other.
//
//   store verb --gather--> [resident] --spiller--> [written] --group_commit--> [durable]
//   disk_fill: [written, durable] --read, sum--> [resident]
//   forget: doomed pages --zero headers--> limbo --group_commit--> free
//
// Owner: the reactor thread. Every machine reports a part's change to `events`.
#pragma once

#include "daemon/engine/admission.h"
#include "daemon/engine/copy_desk.h"
#include "daemon/engine/core.h"
#include "daemon/engine/disk_fill.h"
#include "daemon/engine/forget.h"
#include "daemon/engine/group_commit.h"
#include "daemon/engine/page_keeper.h"
#include "daemon/engine/rank_desk.h"
#include "daemon/engine/spiller.h"
#include "daemon/engine/step_mover.h"

namespace hc {

// What happened to a part; the verbs' waiters listen.
class PartEvents {
 public:
  virtual ~PartEvents() = default;
  virtual void part_resident(PartRef ref) = 0;
  virtual void part_written(PartRef ref) = 0;
  virtual void part_durable(PartRef ref) = 0;
  // The fill failed: the part is absent now. A store that waits for it fills it itself; with none,
  // `code` is what a reader is told.
  virtual void part_fill_failed(PartRef ref, Code code) = 0;
  // Resident, but it will not become written or durable now.
  virtual void part_spill_failed(PartRef ref, Code code) = 0;
  // The operation whose copy is filling a part has ended; the copy still runs.
  virtual void fill_abandoned(std::uint32_t item) = 0;
  virtual void copy_done(std::uint32_t item, Code code, std::uint32_t crc) = 0;
  // A forgotten page can't come back any more.
  virtual void freed(FreeToken token) = 0;
};

class OpEnds;

struct Works {
  explicit Works(Core& the_core)
      : core(the_core),
        pages(*this, the_core),
        admission(*this),
        commit(*this),
        copies(*this),
        ranks(*this),
        spiller(*this),
        fills(*this),
        forget(*this),
        steps(*this) {}

  // The records of every family that is bound by now, and the order of every slab that is open.
  void open_catalog();

  Core& core;
  PageKeeper pages;
  Admission admission;
  GroupCommit commit;
  CopyDesk copies;
  RankDesk ranks;
  Spiller spiller;
  DiskFill fills;
  Forget forget;
  StepMover steps;
  PartEvents* events = nullptr;
  OpEnds* ends = nullptr;
};

}  // namespace hc
