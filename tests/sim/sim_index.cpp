// SPDX-License-Identifier: Apache-2.0
// sim_index: committed rows in a map, one batch in flight.
#include "tests/sim/sim_index.h"

#include <algorithm>

namespace hc::sim {

SimIndex::SimIndex(SimClock& clock, Trace& trace, Laws& laws, Prng prng)
    : clock_(clock), trace_(trace), laws_(laws), prng_(prng) {}

void SimIndex::clear(const IndexIdentity& identity) {
  identity_ = identity;
  spaces_.clear();
  rows_.clear();
  damaged_.clear();
  state_ = IndexState{};
  dead_ = false;
  file_damaged_ = false;
}

Result<void> SimIndex::open(const IndexIdentity& identity) {
  laws_.expect(!batch_, 0, "index opened with a batch in flight");
  laws_.expect(!open_, 0, "index opened twice");
  wanted_ = identity;
  if (prng_.per_10k(plan_.index_open_error)) {
    trace_.add("fault index_open");
    return make_error(Code::io_error, "index open");
  }
  if (file_damaged_) {
    return make_error(Code::corrupt, "index file");
  }
  open_ = true;
  if (!identity_ || *identity_ != identity) {
    clear(identity);
  }
  return {};
}

void SimIndex::save_copy() { copy_ = Copy{identity_, spaces_, rows_, state_}; }

bool SimIndex::put_copy_back() {
  if (!copy_) {
    return false;
  }
  identity_ = copy_->identity;
  spaces_ = copy_->spaces;
  rows_ = copy_->rows;
  state_ = copy_->state;
  damaged_.clear();
  return true;
}

Result<void> SimIndex::reset(const IndexIdentity& identity) {
  laws_.expect(!batch_, 0, "index reset with a batch in flight");
  wanted_ = identity;
  if (prng_.per_10k(plan_.index_reset_error)) {
    trace_.add("fault index_reset");
    dead_ = true;  // the old file is still there, of an epoch that is over
    return make_error(Code::io_error, "index reset");
  }
  clear(identity);
  open_ = true;
  return {};
}

Result<void> SimIndex::visit(const IndexVisitor& visitor) {
  for (const auto& [number, space] : spaces_) {
    visitor.on_space(space);
  }
  const bool breaks = prng_.per_10k(plan_.index_visit_error);
  std::uint64_t left = breaks ? prng_.below(rows_.size() + 1) : UINT64_MAX;
  for (const auto& [key, row] : rows_) {
    if (left-- == 0) {
      break;
    }
    if (damaged_.count(key) != 0) {
      visitor.on_damaged_row(make_error(Code::corrupt, "row"));
      if (visitor.on_damaged_key) {
        visitor.on_damaged_key({SpaceNo{key.first}, key.second});
      }
    } else {
      visitor.on_row(row);
    }
  }
  if (breaks) {
    trace_.add("fault index_visit");
    return make_error(Code::io_error, "index visit");
  }
  return {};
}

void SimIndex::damage_rows() {
  for (const auto& [key, row] : rows_) {
    if (prng_.per_10k(plan_.row_damaged)) {
      damaged_[key] = true;
      trace_.add("fault row", key.first, key.second.word(0));
    }
  }
}

void SimIndex::commit(IndexBatch batch) {
  laws_.expect(!batch_, 0, "two batches in flight");
  if (watcher_) {
    for (const IndexRow& row : batch.puts) {
      watcher_(row);
    }
  }
  trace_.add("commit", batch.puts.size(), batch.erases.size(), batch.spaces.size());
  const std::uint64_t usual_us = std::uint64_t{plan_.io_delay_us} * 2;
  const std::uint64_t delay_us = prng_.one_in(20) ? usual_us * 50 : usual_us;
  due_ = clock_.time() + static_cast<std::int64_t>(prng_.between(1, delay_us * 1'000));
  batch_ = std::move(batch);
}

void SimIndex::apply(const IndexBatch& batch) {
  ++commits_;
  state_ = batch.state;
  for (const IndexSpace& space : batch.spaces) {
    spaces_[space.number.value] = space;
  }
  for (const IndexErase& erase : batch.erases) {
    rows_.erase({erase.space.value, erase.page});
    damaged_.erase({erase.space.value, erase.page});
  }
  for (const IndexRow& row : batch.puts) {
    laws_.expect(spaces_.count(row.space.value) != 0, 0, "a row of a space that has no row");
    rows_[{row.space.value, row.page}] = row;
    damaged_.erase({row.space.value, row.page});
  }
}

Result<void> SimIndex::draw_outcome() {
  if (batch_->fresh) {
    if (prng_.per_10k(plan_.index_reset_error)) {
      trace_.add("fault index_fresh");
      dead_ = true;
      return make_error(Code::io_error, "index set aside");
    }
    clear(*batch_->fresh);
    open_ = true;
  }
  if (dead_) {
    return make_error(Code::io_error, "the environment is dead");
  }
  if (prng_.per_10k(plan_.commit_dead)) {
    dead_ = true;
    trace_.add("fault commit_dead");
    if (prng_.one_in(2)) {
      apply(*batch_);
    }
    return make_error(Code::io_error, "commit failed for good");
  }
  if (prng_.per_10k(plan_.commit_error)) {
    trace_.add("fault commit");
    const Code code = prng_.one_in(2) ? Code::no_space : Code::io_error;
    return make_error(code, "commit failed");
  }
  apply(*batch_);
  return {};
}

std::optional<Result<void>> SimIndex::poll() {
  clock_.tick(static_cast<std::int64_t>(prng_.below(500)));
  if (!batch_ || clock_.time() < due_) {
    return std::nullopt;
  }
  Result<void> outcome = draw_outcome();
  batch_.reset();
  return outcome;
}

void SimIndex::wait() {
  if (batch_) {
    clock_.advance_to(due_);
  }
}

void SimIndex::crash() {
  if (batch_ && !dead_ && prng_.one_in(2)) {
    apply(*batch_);
  }
  batch_.reset();
  dead_ = false;
  open_ = false;
}

const IndexRow* SimIndex::row(SpaceNo space, const PageHash& page) const {
  const auto found = rows_.find({space.value, page});
  return found == rows_.end() ? nullptr : &found->second;
}

bool SimIndex::row_damaged(SpaceNo space, const PageHash& page) const {
  return damaged_.count({space.value, page}) != 0;
}

bool SimIndex::names(const SlabHeader& slab, std::uint32_t slot) {
  if (!identity_ || *identity_ != wanted_) {
    return false;
  }
  for (const auto& [key, row] : rows_) {
    if (damaged_.count(key) != 0) {
      continue;
    }
    const auto named = std::find_if(row.parts.begin(), row.parts.end(), [&](const auto& part) {
      return part.kind == slab.kind && part.shard == slab.shard && part.volume == slab.volume &&
             part.slot == slot;
    });
    const auto space = spaces_.find(key.first);
    if (named == row.parts.end() || space == spaces_.end()) {
      continue;
    }
    if (make_family_id(space->second.descriptor) == slab.family) {  // dear, so asked last
      trace_.add("named by", key.first, key.second.word(0), named->generation);
      return true;
    }
  }
  return false;
}

}  // namespace hc::sim
