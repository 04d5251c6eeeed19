// SPDX-License-Identifier: Apache-2.0
// op_ends: answers of operations, and the one way an operation ends.
//
// Owner: the reactor thread.
// Invariants:
//   - every accepted operation gets exactly one terminal completion
//   - an operation that names client memory is not closed while a copy for it is queued or running
#pragma once

#include <cstdint>

#include "daemon/engine/works.h"

namespace hc {

class OpEnds {
 public:
  explicit OpEnds(Works& works) : works_(works) {}

  // A progress report that is not terminal.
  void report(std::uint32_t op, Ack ack);
  // The frames that its rank is to copy to or from.
  void report_prepared(std::uint32_t op, std::span<const FrameRef> frames);
  // Nothing of the operation is open any more: answers and closes it.
  void finish(std::uint32_t op, Code code, Ack ack);
  // Ends it early: queued copies are dropped, waiting items leave; it is finished now, or when its
  // last running copy has ended. Only the first call counts.
  void end(std::uint32_t op, Code code);
  // To be called whenever a copy of an ending operation has ended.
  void continue_end(std::uint32_t op);
  // Deadlines that have passed.
  void expire();
  // An answer to a request that was not accepted as an operation.
  void refuse(SessionId session, const RequestEntry& entry, Code code);

  // Takes the item off its list and ends its hold.
  void free_item(std::uint32_t item);
  void release_lease(LeaseId lease);
  void drop_holds(std::uint32_t op);
  // The same for holds of a moment: nobody else has missed what they held, so nothing has moved.
  void unhold(std::uint32_t op);
  void stop_waiting(Op& op);  // for room, if it does

 private:
  CompletionEntry entry_of(const Op& op) const;
  void send(const Op& op, CompletionEntry entry);
  void report_late(std::uint32_t op);
  void count_end(const Op& op, Code code);
  void drop_hold(PageId page);

  Works& works_;
};

// Calls fn(kind, part) for every part of page `index` that this operation's rank has to do with.
template <typename Fn>
void for_each_part(Core& core, const Op& op, std::uint32_t index, Fn&& fn) {
  const EngineSession* session = core.sessions.find(op.session);
  HC_CHECK(session != nullptr);
  const SpaceDescriptor& space = core.family_of(op.session).descriptor;
  const std::uint8_t mask = op.request.entry.kind_mask;
  std::uint32_t first_part = 0;
  for (std::uint16_t kind = 0; kind < space.kinds.size(); ++kind) {
    const Placement placement = space.kinds[kind].placement;
    const bool wanted = mask == 0 || (mask >> kind & 1) != 0;
    const bool mine = placement != Placement::owned ||
                      op.request.pages[index].owner == session->shard;
    const bool replicated = placement == Placement::replicated;
    if (wanted && mine) {
      fn(kind, first_part + (replicated ? 0U : session->shard));
    }
    first_part += replicated ? 1U : space.world.shards();
  }
}

// Whether a prefix of `pages` pages needs this kind of page `index`.
inline bool kind_needed(const KindSpec& kind, std::uint32_t index, std::uint32_t pages) {
  return kind.policy == HitPolicy::all_pages || index + kind.trailing_pages >= pages;
}

}  // namespace hc
