// SPDX-License-Identifier: Apache-2.0
// reload_model: touches as the daemon touches: the pages of an operation, tail before head.
#include "client/ctl/reload_model.h"

#include <algorithm>

namespace hc {

ReloadModel::ReloadModel(const Trace& trace, std::uint64_t l3_pages, std::uint32_t pages_min)
    : trace_(trace),
      pages_min_(pages_min),
      model_(trace.block_count(), l3_pages),
      reach_(trace.request_count(), 0) {}

std::span<const std::uint32_t> ReloadModel::blocks_of(const ReloadEvent& event) const {
  return trace_.blocks_of(event.request).subspan(event.first, event.count);
}

// Who waits for another one's reload begins none: nothing is touched.
void ReloadModel::offer(const ReloadEvent& event) {
  const auto blocks = blocks_of(event);
  const std::uint64_t hit = model_.hit_prefix(blocks);
  if (hit < pages_min_) {
    return;
  }
  if (event.joined == 0) {
    model_.touch_request(blocks.first(hit));
  }
  counts_.offered_hits += hit;
  auto& reach = reach_[event.request];
  reach = std::max(reach, event.first + static_cast<std::uint32_t>(hit));
}

ModelCounts ReloadModel::replay(std::span<const ReloadEvent> events) {
  for (const ReloadEvent& event : events) {
    switch (event.kind) {
      case ReloadEvent::Kind::offer:
        offer(event);
        break;
      case ReloadEvent::Kind::refused:
        reach_[event.request] = 0;
        break;
      case ReloadEvent::Kind::load:
      case ReloadEvent::Kind::store:
        model_.touch_request(blocks_of(event));
        break;
      case ReloadEvent::Kind::served:
        counts_.referenced_pages += trace_.blocks_of(event.request).size();
        counts_.hit_pages += event.count;
        counts_.model_hit_pages += std::max(event.first, reach_[event.request]);
        break;
    }
  }
  return counts_;
}

}  // namespace hc
