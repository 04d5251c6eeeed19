// SPDX-License-Identifier: Apache-2.0
// index: the seam to the durable index: (space, page hash) -> parts and last access.
//
// A derived, advisory structure: the slot header is the truth. One batch is in flight at a time;
// a committed batch has been synced. The caller flushes the slabs first, so a committed row never
// names a slot whose write had not completed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "proto/index_row.h"
#include "proto/result.h"
#include "proto/space.h"

namespace hc {

// A space as the index knows it: enough to rebuild its family after a restart.
struct IndexSpace {
  SpaceNo number{};
  SpaceDescriptor descriptor;
  std::uint16_t shards_on_node = 0;  // what the budget was split by
};

struct IndexErase {
  SpaceNo space{};
  PageHash page;
};

// Which store and epoch the index belongs to; another one means: not ours, start empty.
struct IndexIdentity {
  Uuid store_uuid{};
  std::uint64_t store_epoch = 0;
  friend bool operator==(const IndexIdentity&, const IndexIdentity&) = default;
};

// How far an index has come; committed with every batch. A new, empty one has come nowhere.
struct IndexState {
  std::uint64_t commit_sequence = 0;  // the slabs carry it too, see engine/side_notes.h
  bool rebuilding = false;            // not every row that should be there is there yet
  friend bool operator==(const IndexState&, const IndexState&) = default;
};

// One transaction. Erases are applied before puts.
struct IndexBatch {
  std::vector<IndexSpace> spaces;     // put
  std::vector<IndexRow> puts;
  std::vector<IndexErase> erases;     // absent rows are fine
  IndexState state{};
  // Set: the index is damaged or dead. It is set aside, and the batch is the first of an empty one.
  std::optional<IndexIdentity> fresh = std::nullopt;
  bool empty() const { return spaces.empty() && puts.empty() && erases.empty(); }
};

struct IndexVisitor {
  std::function<void(const IndexSpace&)> on_space;
  std::function<void(const IndexRow&)> on_row;
  std::function<void(const Error&)> on_damaged_row;  // skipped; counted by the caller
  // Beside on_damaged_row: the page under whose key the damaged row stands. May be empty.
  std::function<void(const IndexErase&)> on_damaged_key = nullptr;
};

class Index {
 public:
  virtual ~Index() = default;

  // Blocking; at start only. Opens the index of `identity`. One that is absent or belongs to
  // another identity is replaced by an empty one (created under a temporary name, renamed).
  virtual Result<void> open(const IndexIdentity& identity) = 0;
  // Of the last committed batch. With no batch in flight; open.
  virtual IndexState state() const = 0;
  // Blocking; at start only, after open. Every space first, then every row in key order.
  virtual Result<void> visit(const IndexVisitor& visitor) = 0;
  // Blocking; with no batch in flight. Replaces the index by an empty one of `identity`.
  virtual Result<void> reset(const IndexIdentity& identity) = 0;
  // With no batch in flight: nothing is open afterwards, and `open` may be called again.
  virtual void close() = 0;

  // Starts to commit; returns at once. Must not be called while a batch is in flight.
  virtual void commit(IndexBatch batch) = 0;
  // The outcome of the batch in flight once it is known, else nothing.
  virtual std::optional<Result<void>> poll() = 0;
  virtual void wait() = 0;  // until poll would answer; at stop only
  // With no batch in flight: no commit can succeed any more until a reset or a fresh batch.
  virtual bool is_dead() const = 0;
};

}  // namespace hc
