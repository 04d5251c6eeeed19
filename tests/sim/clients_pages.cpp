// SPDX-License-Identifier: Apache-2.0
// clients_pages: what an operation's pages have in the daemon's own tables, at its submission and
// at its answer.
#include "tests/sim/clients.h"

namespace hc::sim {

// The parts of this page that the session's rank has to do with.
Clients::Parts Clients::parts_of_page(const SimSession& session, const SimOp& op,
                                      std::uint32_t index) const {
  const SpaceDescriptor& space = world_.scenario.space_of(op.version);
  Parts out;
  for (std::uint16_t kind = 0; kind < space.kinds.size(); ++kind) {
    const bool wanted = op.entry.kind_mask == 0 || (op.entry.kind_mask >> kind & 1) != 0;
    const bool mine = space.kinds[kind].placement != Placement::owned ||
                      world_.scenario.universe.owner(op.pages[index]) == session.shard;
    if (wanted && mine) {
      out.push_back(part_index(space, kind, session.shard));
    }
  }
  return out;
}

bool Clients::is_needed(const KindSpec& kind, std::uint32_t index, std::size_t pages) {
  return kind.policy == HitPolicy::all_pages || index + kind.trailing_pages >= pages;
}

// Whether every needed part of the page is in L2 (or, unless `in_memory`, stored).
bool Clients::page_is_there(const SimSession& session, const SimOp& op, std::uint32_t index,
                            bool in_memory) {
  Core& core = world_.core();
  const auto space = core.sessions.find(session.id)->space;
  const PageId page = core.catalog->find(space, world_.scenario.universe.hash(op.pages[index]));
  for (const std::uint32_t at : parts_of_page(session, op, index)) {
    const Family& family = core.family_of(session.id);
    const KindSpec& kind = family.descriptor.kinds[family.kind_of(at)];
    if (!is_needed(kind, index, op.pages.size())) {
      continue;
    }
    if (page == kNoPage) {
      return false;
    }
    const Part& part = core.catalog->part(core.catalog->ref(page, at));
    const bool stored = !in_memory && part.l3 >= L3State::written;
    if (part.l2 != L2State::resident && !stored) {
      return false;
    }
  }
  return true;
}

// Of each part that has its bytes on disk.
std::vector<Generation> Clients::blobs_of(const SimSession& session, const SimOp& op,
                                          std::uint32_t index) {
  Core& core = world_.core();
  const auto space = core.sessions.find(session.id)->space;
  const PageId page = core.catalog->find(space, world_.scenario.universe.hash(op.pages[index]));
  std::vector<Generation> out;
  for (const std::uint32_t at : parts_of_page(session, op, index)) {
    if (page != kNoPage && core.catalog->part(core.catalog->ref(page, at)).l3 >= L3State::written) {
      out.push_back(core.catalog->part(core.catalog->ref(page, at)).generation);
    }
  }
  return out;
}

}  // namespace hc::sim
