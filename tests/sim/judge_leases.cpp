// SPDX-License-Identifier: Apache-2.0
// judge_leases: what a lease shows.
#include "tests/sim/clients.h"

namespace hc::sim {

void Clients::take_lease(SimSession& session, SimOp& op, const CompletionEntry& entry,
                         std::span<const FrameRef> frames) {
  const bool may = op.verb() == Verb::reload || op.verb() == Verb::pin ||
                   (op.verb() == Verb::store && (op.entry.flags & kFlagKeepLease) != 0);
  world_.laws.expect(may && !op.lease_known, 4, "a lease that was not asked for, or twice");
  op.lease_known = true;
  SimLease lease{entry.lease, op.version, {}};
  world_.laws.expect(frames.size() == op.pages.size() * kKindsMax, 4, "frames of a lease");
  for (std::uint32_t i = 0; i < op.pages.size(); ++i) {
    const bool forgotten = world_.model.at(op.version, op.pages[i]).gone > op.submitted;
    for (const std::uint32_t part : parts_of_page(session, op, i)) {
      const Family& family = world_.core().family_of(session.id);
      const std::uint16_t kind = family.kind_of(part);
      const FrameRef& ref = frames[i * kKindsMax + kind];
      const bool needed = op.verb() == Verb::store ||
                          is_needed(family.descriptor.kinds[kind], i, op.pages.size());
      world_.laws.expect(ref.frame != kNone32 || forgotten || !needed, 1,
                         "a lease without the frame of a page");
      if (ref.frame != kNone32) {
        lease.frames.push_back({op.pages[i], part, ref});
      }
    }
  }
  check_lease(lease);
  session.leases.push_back(std::move(lease));
}

void Clients::check_lease(const SimLease& lease) {
  Core& core = world_.core();
  const auto space =
      core.superblock->find_space(make_space_id(world_.scenario.with_version(lease.version)));
  Family& family = core.family_of(*space);
  for (const HeldFrame& held : lease.frames) {
    const std::uint16_t kind = family.kind_of(held.part);
    FramePool& frames = family.frames[kind];
    const FrameId frame{held.ref.frame};
    const bool same = frames.generation(frame) == held.ref.generation &&
                      generation_is_whole(held.ref.generation);
    world_.laws.expect(same, 1, "a leased frame changed");
    const std::span<const std::uint8_t> bytes{frames.payload(frame),
                                              family.payload_bytes(held.part)};
    world_.laws.expect(has_content(world_.scenario.universe,
                                   world_.content_key(lease.version, held.page, held.part), bytes),
                       1, "a lease shows wrong bytes");
    std::span<const std::uint8_t> metadata;
    const auto wanted = content_metadata(world_.scenario.universe, held.page);
    const BlobVerdict verdict = read_metadata({frames.header(frame), kBlockBytes}, metadata);
    const bool right = metadata.empty() || std::equal(metadata.begin(), metadata.end(),
                                                      wanted.begin(), wanted.end());
    world_.laws.expect(verdict == BlobVerdict::good && right, 1, "metadata of a leased page");
  }
}

}  // namespace hc::sim
