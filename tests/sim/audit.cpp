// SPDX-License-Identifier: Apache-2.0
// audit: reads back what the engine says it has, page by page, as a client would.
#include <algorithm>

#include "tests/sim/driver.h"

namespace hc::sim {

void Driver::audit(std::uint32_t pages_max) {
  if (!world_.has_catalog()) {
    return;
  }
  world_.auditing = true;
  for (std::uint32_t version = 0; version < world_.scenario.versions(); ++version) {
    const auto space = world_.core().superblock->find_space(
        make_space_id(world_.scenario.with_version(version)));
    if (!space || world_.core().spaces->find(*space) == nullptr) {
      continue;
    }
    for (std::uint16_t shard = 0; shard < world_.scenario.shard_count; ++shard) {
      const std::uint32_t number = kSimSessions - 1;
      if (clients_.session(number).state != SimSession::State::closed ||
          !clients_.attach(number, version,
                           static_cast<std::uint16_t>(world_.scenario.first_shard + shard))) {
        continue;
      }
      audit_pages(number, pages_max);
      clients_.begin_close(number);
      while (clients_.session(number).state != SimSession::State::closed) {
        advance(kNsPerMs);
      }
    }
  }
  world_.auditing = false;
}

void Driver::audit_pages(std::uint32_t number, std::uint32_t pages_max) {
  const std::uint32_t pages = world_.scenario.universe.pages();
  const SpaceNo space = world_.core().sessions.find(clients_.session(number).id)->space;
  for (std::uint32_t page = 0; page < pages; ++page) {
    const bool chosen = pages_max >= pages || world_.prng.below(pages) < pages_max;
    const PageHash hash = world_.scenario.universe.hash(page);
    if (!chosen || world_.core().catalog->find(space, hash) == kNoPage) {
      continue;
    }
    Clients::Draft draft;
    draft.verb = Verb::load;
    draft.deadline_ms = 60'000;
    draft.pages = {page};
    clients_.submit(number, draft);
    ++world_.tally.audited;
    const Instant bound = world_.clock.time() + 120'000 * kNsPerMs;
    while (clients_.session(number).ops > 0) {
      advance(kNsPerMs);
      if (world_.clock.time() > bound) {
        world_.laws.broken(4, "a load of the audit never ends");
        return;
      }
    }
    watch_.observe();
  }
}

}  // namespace hc::sim
