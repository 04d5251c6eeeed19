// SPDX-License-Identifier: Apache-2.0
// rank_desk: batches of frames to ranks, and what they say of them.
#include "daemon/engine/rank_desk.h"

#include <cstring>

#include "daemon/engine/op_ends.h"
#include "daemon/engine/works.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

void RankDesk::copy(std::uint32_t item) {
  const std::uint32_t index = works_.core.ops.item(item).op;
  Op& op = works_.core.ops.op(index);
  if (op.for_rank.empty() && op.with_rank.empty()) {
    to_tell_.emplace_back(index, op.use);
  }
  op.for_rank.push_back(item);
}

std::vector<std::uint32_t> RankDesk::drop_untold(std::uint32_t op) {
  return std::exchange(works_.core.ops.op(op).for_rank, {});
}

// A frame's padding is ours to write: the rank knows of the payload only.
void RankDesk::tell(std::uint32_t index) {
  Core& core = works_.core;
  Op& op = core.ops.op(index);
  op.with_rank = std::exchange(op.for_rank, {});
  std::vector<FrameRef> frames(op.request.pages.size() * kKindsMax, FrameRef{kNone32, 0, 0, 0});
  for (const std::uint32_t at : op.with_rank) {
    const Item& item = core.ops.item(at);
    const bool fills = item.role == ItemRole::filler;
    const FrameId frame = fills ? item.frame : core.catalog->part(item.part).frame;
    FramePool& pool = core.frames_of(item.part);
    frames[item.page_index * kKindsMax + item.kind] =
        FrameRef{frame.value, item.kind, 0, pool.generation(frame)};
    if (fills) {
      const std::uint64_t payload = core.payload_bytes(item.part);
      const std::uint64_t whole =
          core.family_of(item.part).arenas->frame_bytes(item.kind) - kBlockBytes;
      std::memset(pool.payload(frame) + payload, 0, whole - payload);
    }
  }
  ++core.counters.rank_batches;
  HC_FAILPOINT(rank_prepared);
  works_.ends->report_prepared(index, frames);
  HC_FAILPOINT(rank_told);
}

void RankDesk::turn() {
  for (const auto& [index, use] : std::exchange(to_tell_, {})) {
    const Op& op = works_.core.ops.op(index);
    if (op.in_use && op.use == use && op.with_rank.empty() && !op.for_rank.empty()) {
      tell(index);
    }
  }
}

void RankDesk::finish(std::uint32_t index, Code said) {
  Core& core = works_.core;
  const Code code = HC_MUTANT(rank_failure_ignored) ? Code::ok : said;
  Op& op = core.ops.op(index);
  const std::vector<std::uint32_t> items = std::exchange(op.with_rank, {});
  HC_CHECK(op.in_use && !items.empty());
  if (!op.for_rank.empty()) {
    to_tell_.emplace_back(index, op.use);
  }
  HC_FAILPOINT(rank_committed);
  for (const std::uint32_t at : items) {
    // Of an operation that is ending nobody will ever see the frame.
    const bool fills = core.ops.item(at).role == ItemRole::filler;
    if (code == Code::ok && !op.ending && fills && !HC_MUTANT(rank_sum_skipped)) {
      works_.copies.sum_filled(at);
      continue;
    }
    HC_CHECK(op.copies > 0);
    --op.copies;
    works_.events->copy_done(at, code, 0);
  }
  ++core.moves;
}

void RankDesk::give_up(SessionId id) {
  Core& core = works_.core;
  const EngineSession* session = core.sessions.find(id);
  HC_CHECK(session != nullptr);
  for (const std::uint32_t op : session->op_of_slot) {
    if (op != kNone32 && !core.ops.op(op).with_rank.empty()) {
      ++core.counters.rank_batches_given_up;
      HC_FAILPOINT(rank_quarantine_over);
      finish(op, Code::cancelled);
    }
  }
}

bool RankDesk::is_with_rank(SessionId id) const {
  const EngineSession* session = works_.core.sessions.find(id);
  HC_CHECK(session != nullptr);
  for (const std::uint32_t op : session->op_of_slot) {
    if (op != kNone32 && !works_.core.ops.op(op).with_rank.empty()) {
      return true;
    }
  }
  return false;
}

}  // namespace hc
