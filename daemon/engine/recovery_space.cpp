// SPDX-License-Identifier: Apache-2.0
// recovery_space: which steps of the slabs stay after a start, and what goes back to the volumes.
#include "daemon/engine/recovery.h"
#include "daemon/log/log.h"
#include "proto/test_hooks.h"

namespace hc {

// Rows don't tell which steps hold something: those do that anything was ever written in.
Result<void> Recovery::find_written_steps(Disk& disk) {
  const SlabSet& slabs = works_.core.spaces->slabs();
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    const Slab& slab = slabs.slab(SlabId{id});
    for (std::uint32_t step = 0; step < slab.step_count(); ++step) {
      const std::uint64_t begin = slab.slot_offset(slab.first_slot(step));
      const auto data = disk.next_data(slab.file(), begin);
      HC_TRY(data);
      if (!data->has_value()) {
        break;
      }
      step += static_cast<std::uint32_t>((**data - begin) / slab.step_bytes(0));
      if (step < slab.step_count()) {
        used_[id][step] = true;
      }
    }
  }
  return {};
}

// Space that nothing speaks for goes back, before anything is granted. Every slot that a row names
// will be live or wait in limbo, whatever its header says.
Result<void> Recovery::settle_space(Disk& disk) {
  SlabSet& slabs = works_.core.spaces->slabs();
  HC_TRY_VOID(slabs.remove_others());
  used_.resize(slabs.count());
  for (std::uint16_t slab = 0; slab < slabs.count(); ++slab) {
    used_[slab].resize(slabs.slab(SlabId{slab}).step_count());
  }
  for (const Candidate& at : candidates_) {
    used_[at.slab.value][slabs.slab(at.slab).step_of(at.slot)] = true;
  }
  for (const SlotRef& at : unknown_slots_) {
    used_[at.slab.value][slabs.slab(at.slab).step_of(at.slot)] = true;
  }
  if (incomplete()) {
    HC_TRY_VOID(find_written_steps(disk));
  }
  for (std::uint16_t slab = 0; slab < slabs.count(); ++slab) {
    HC_TRY_VOID(slabs.settle(SlabId{slab}, used_[slab]));
  }
  HC_FAILPOINT(load_space_settled);
  for (std::uint16_t volume = 0; volume < slabs.volume_count(); ++volume) {
    const StepLedger& ledger = slabs.ledger(volume);
    if (ledger.over_budget()) {
      log_warn("l3.over_budget", {{"volume", std::uint32_t{volume}},
                                  {"budget_bytes", ledger.budget_bytes()},
                                  {"used_bytes", ledger.charged_bytes()},
                                  {"reason", "the budget was lowered: the oldest pages go"}});
    }
  }
  return {};
}

}  // namespace hc
