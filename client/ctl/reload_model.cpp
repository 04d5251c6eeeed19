// SPDX-License-Identifier: Apache-2.0
// reload_model: touches as the daemon touches: the pages of an operation, tail before head.
#include "client/ctl/reload_model.h"

#include <algorithm>

namespace hc {

ReloadModel::ReloadModel(const Trace& trace, std::uint64_t l3_pages, std::uint32_t pages_min)
    : trace_(trace),
      pages_min_(pages_min),
      model_(trace.block_count(), l3_pages),
      reach_(trace.request_count()),
      unsettled_(trace.block_count(), 0) {}

std::span<const std::uint32_t> ReloadModel::blocks_of(const ReloadEvent& event) const {
  return trace_.blocks_of(event.request).subspan(event.first, event.count);
}

std::uint64_t ReloadModel::settled_prefix(std::span<const std::uint32_t> blocks) const {
  const auto end = std::find_if(blocks.begin(), blocks.end(), [this](std::uint32_t block) {
    return !model_.holds(block) || unsettled_[block] > 0;
  });
  const auto pages = static_cast<std::uint64_t>(end - blocks.begin());
  return pages < pages_min_ ? 0 : pages;
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
  Reach& reach = reach_[event.request];
  reach.most = std::max(reach.most, event.first + static_cast<std::uint32_t>(hit));
  if (const std::uint64_t settled = settled_prefix(blocks); settled > 0) {
    reach.least = std::max(reach.least, event.first + static_cast<std::uint32_t>(settled));
  }
}

ModelCounts ReloadModel::replay(std::span<const ReloadEvent> events) {
  for (const ReloadEvent& event : events) {
    switch (event.kind) {
      case ReloadEvent::Kind::offer:
        offer(event);
        break;
      case ReloadEvent::Kind::refused:
        reach_[event.request] = {};
        break;
      case ReloadEvent::Kind::store:
        for (const std::uint32_t block : blocks_of(event)) {
          ++unsettled_[block];
        }
        model_.touch_request(blocks_of(event));
        break;
      case ReloadEvent::Kind::load:
        model_.touch_request(blocks_of(event));
        break;
      case ReloadEvent::Kind::settled:
        for (const std::uint32_t block : blocks_of(event)) {
          --unsettled_[block];
        }
        break;
      case ReloadEvent::Kind::served: {
        const Reach& reach = reach_[event.request];
        counts_.referenced_pages += trace_.blocks_of(event.request).size();
        counts_.hit_pages += event.count;
        counts_.model_hit_pages += std::clamp(event.count, std::max(event.first, reach.least),
                                              std::max(event.first, reach.most));
        break;
      }
    }
  }
  return counts_;
}

}  // namespace hc
