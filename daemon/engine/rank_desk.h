// SPDX-License-Identifier: Apache-2.0
// rank_desk: copies that the engine's rank makes itself, between its own memory and our frames.
//
//   for the rank -> prepared (told, with the frames) -> the rank's word -> summed (store), or done
//
// Owner: the reactor thread.
// Invariants:
//   - one batch of an operation is with its rank at a time
//   - a frame that a rank was told of is its operation's until the rank says that it has copied, or
//     until the rank can't touch it any more (give_up): each counts as a running copy
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/engine/catalog.h"
#include "proto/status.h"

namespace hc {

struct Op;
struct Works;

class RankDesk {
 public:
  explicit RankDesk(Works& works) : works_(works) {}

  // The item's memory to its part's frame (filler), or back (copier), by its rank.
  void copy(std::uint32_t item);
  // What the rank has not been told of: taken out, to be cancelled.
  std::vector<std::uint32_t> drop_untold(std::uint32_t op);
  // The rank says how its batch of the operation has ended.
  void finish(std::uint32_t op, Code code);
  // The ranks of a session touch no frame any more.
  void give_up(SessionId session);
  // Whether a batch is with the rank of the session, of any operation.
  bool is_with_rank(SessionId session) const;

  void turn();  // tells ranks
  bool idle() const { return to_tell_.empty(); }

 private:
  void tell(std::uint32_t op);

  Works& works_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> to_tell_;  // op, use
};

}  // namespace hc
