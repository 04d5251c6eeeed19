// SPDX-License-Identifier: Apache-2.0
// sim_index: a virtual index. A batch takes effect at its completion; a crash meanwhile leaves the
// transaction before it or after it, never a mixture. Rows can rot and commits can fail, by plan.
//
// Held as a law here: a row is put only when every block of its slots has been flushed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "daemon/index/index.h"
#include "proto/slab_header.h"
#include "tests/sim/fault_plan.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/trace.h"

namespace hc::sim {

class SimIndex final : public Index {
 public:
  SimIndex(SimClock& clock, Trace& trace, Laws& laws, Prng prng);

  Result<void> open(const IndexIdentity& identity) override;
  IndexState state() const override { return state_; }
  Result<void> visit(const IndexVisitor& visitor) override;
  Result<void> reset(const IndexIdentity& identity) override;
  void close() override { open_ = false; }
  void commit(IndexBatch batch) override;
  std::optional<Result<void>> poll() override;
  void wait() override;
  bool is_dead() const override { return dead_; }

  // The other side of the seam.
  void set_plan(const FaultPlan& plan) { plan_ = plan; }
  Instant next_due() const { return batch_ ? due_ : SimClock::kNever; }
  void crash();
  // While nothing has it open: the file is gone, is damaged so that the next open says so, or is
  // replaced by the copy that was last saved. False: there is no copy.
  void lose() { identity_.reset(); }
  void damage() { file_damaged_ = true; }
  void save_copy();
  bool put_copy_back();
  // Asked about every part of every row of a batch that begins.
  void set_watcher(std::function<void(const IndexRow&)> watcher) { watcher_ = std::move(watcher); }

  std::uint64_t commits() const { return commits_; }
  // The committed row, whether or not it verifies.
  const IndexRow* row(SpaceNo space, const PageHash& page) const;
  bool row_damaged(SpaceNo space, const PageHash& page) const;
  // A committed row that verifies and names this slot.
  bool names(const SlabHeader& slab, std::uint32_t slot);
  const std::map<std::pair<std::uint32_t, PageHash>, IndexRow>& rows() const { return rows_; }
  void damage_rows();

 private:
  using Key = std::pair<std::uint32_t, PageHash>;
  void apply(const IndexBatch& batch);
  void clear(const IndexIdentity& identity);
  Result<void> draw_outcome();

  SimClock& clock_;
  Trace& trace_;
  Laws& laws_;
  Prng prng_;
  FaultPlan plan_;
  std::function<void(const IndexRow&)> watcher_;
  std::optional<IndexIdentity> identity_;
  IndexIdentity wanted_{};    // of the store; rows of another identity count for nothing
  std::map<std::uint32_t, IndexSpace> spaces_;
  std::map<Key, IndexRow> rows_;
  std::map<Key, bool> damaged_;
  struct Copy {
    std::optional<IndexIdentity> identity;
    std::map<std::uint32_t, IndexSpace> spaces;
    std::map<Key, IndexRow> rows;
    IndexState state;
  };
  std::optional<Copy> copy_;
  bool file_damaged_ = false;
  IndexState state_;
  std::optional<IndexBatch> batch_;
  Instant due_{};
  std::uint64_t commits_ = 0;
  bool dead_ = false;
  bool open_ = false;
};

}  // namespace hc::sim
