// SPDX-License-Identifier: Apache-2.0
// scenario: kinds, placements and budgets from the seed.
#include "tests/sim/scenario.h"

#include <algorithm>

#include "proto/budget.h"
#include "proto/check.h"

namespace hc::sim {

namespace {

KindSpec draw_kind(Prng& prng, std::uint32_t number, bool big) {
  KindSpec kind;
  kind.name = "kind" + std::to_string(number);
  const std::uint64_t size = prng.below(10);
  kind.payload_bytes = prng.between32(100, size < 6 ? 4096 : 12'000);
  if (size == 0) {
    kind.payload_bytes = 8192;
  }
  if (big && number == 0) {
    kind.payload_bytes = prng.between32(1U << 20, (1U << 20) + 300'000);
  }
  kind.placement = static_cast<Placement>(prng.below(3));
  if (number > 0 && prng.percent(30)) {
    kind.policy = HitPolicy::trailing;
    kind.trailing_pages = prng.between32(1, 4);
  }
  return kind;
}

SpaceDescriptor draw_space(Prng& prng, std::uint32_t family, bool big) {
  SpaceDescriptor space;
  space.tenant = "sim";
  space.model = "model" + std::to_string(family);
  space.revision = "r";
  space.dtype = "fp8";
  space.packing = "none";
  space.layout = "page";
  space.hash_scheme = "sim";
  space.page_tokens = 64;
  space.world.tensor = static_cast<std::uint16_t>(prng.between(1, 2));
  space.world.context = static_cast<std::uint16_t>(prng.one_in(3) ? 2 : 1);
  const std::uint32_t kinds = big ? 1 : prng.between32(1, 3);
  for (std::uint32_t kind = 0; kind < kinds; ++kind) {
    space.kinds.push_back(draw_kind(prng, kind, big));
  }
  return space;
}

}  // namespace

SpaceDescriptor Scenario::with_version(std::uint32_t version) const {
  SpaceDescriptor out = space_of(version);
  out.weight_version = "w" + std::to_string(version);
  return out;
}

std::uint64_t Scenario::least_volume_bytes() const {
  std::uint64_t least = 0;
  for (const SpaceDescriptor& space : spaces) {
    const auto parts = slots_for_pages(space, shards_on_node, 2, options.spaces.reserve_slots);
    least += slab_bytes(parts);
  }
  return least;
}

namespace {

// Several families have the same shards, so that a rank of one is like a rank of the other.
void draw_families(Prng& prng, std::uint32_t family, bool big, Scenario& out) {
  out.spaces.push_back(draw_space(prng, family, big));
  if (prng.one_in(2)) {
    out.spaces.push_back(draw_space(prng, family + 1000, big));
    out.spaces[1].world = out.spaces[0].world;
  }
}

// Small enough that slabs evict, and with two families that steps move.
void draw_budgets(Prng& prng, bool big, Scenario& out) {
  SpaceSetOptions& spaces = out.options.spaces;
  const std::uint64_t pages_l3 = big ? prng.between(4, 10) : prng.between(8, 48);
  spaces.reserve_slots = prng.between32(2, 12);
  std::uint64_t l3_bytes = 0;
  std::uint64_t page_bytes = 0;
  for (const SpaceDescriptor& space : out.spaces) {
    l3_bytes = std::max(l3_bytes, slab_bytes(slots_for_pages(space, out.shards_on_node, pages_l3,
                                                             spaces.reserve_slots)));
    page_bytes = std::max(page_bytes, frame_bytes_per_page(space, out.shards_on_node));
  }
  l3_bytes = std::max(l3_bytes, out.spaces.size() > 1 ? out.least_volume_bytes() : 0);
  const std::uint64_t pages_l2 = big ? prng.between(2, 6) : prng.between(4, 32);
  spaces.l2_family_bytes = out.spaces.size() > 1 ? pages_l2 * page_bytes : 0;
  spaces.l2_bytes = pages_l2 * page_bytes * out.spaces.size();
  const std::uint64_t volumes = prng.one_in(2) ? 1 : prng.between(2, 3);
  for (std::uint64_t volume = 0; volume < volumes; ++volume) {
    const std::uint64_t bytes = volume == 0 ? l3_bytes : l3_bytes * prng.between(60, 150) / 100;
    spaces.volume_bytes.push_back(std::max(bytes, out.least_volume_bytes()));
  }
  spaces.volume_bytes[0] = l3_bytes;
}

}  // namespace

Scenario draw_scenario(Prng& prng, std::uint32_t family, bool big) {
  Scenario out;
  draw_families(prng, family, big, out);
  const auto world = static_cast<std::uint16_t>(out.spaces[0].world.shards());
  out.shard_count = world;
  if (world > 1 && prng.one_in(3)) {  // some shards live on other nodes
    out.shard_count = static_cast<std::uint16_t>(prng.between(1, world - 1U));
    out.first_shard = static_cast<std::uint16_t>(prng.below(world - out.shard_count + 1U));
  }
  out.shards_on_node = out.shard_count == world && prng.one_in(2) ? 0 : out.shard_count;
  EngineOptions& options = out.options;
  options.commit_interval_ms = prng.between32(5, 200);
  options.commit_parts = prng.one_in(2) ? 8192 : prng.between32(4, 64);
  options.io_inflight_bytes = prng.one_in(2) ? 96ULL << 20 : prng.between(4096, 64 << 10);
  options.spill.policy = static_cast<SpillPolicy>(prng.one_in(2) ? 0 : prng.between(1, 2));
  options.spill.min_uses = prng.between32(1, 3);
  options.spill.dirty_percent = prng.one_in(2) ? 100 : prng.between32(1, 90);
  options.sessions_max = 8;
  options.drop_missing_volumes = true;  // a clear may come with fewer volumes
  options.ops_max = prng.one_in(4) ? 6 : 64;
  options.items_max = prng.one_in(4) ? 40 : 2048;
  options.leases_max = prng.one_in(4) ? 6 : 64;
  options.lease_nodes_max = prng.one_in(4) ? 30 : 512;
  SpaceSetOptions& spaces = options.spaces;
  draw_budgets(prng, big, out);
  spaces.arenas.arena_bytes = prng.one_in(2) ? 1ULL << 30 : 64ULL << 10;
  spaces.arenas.commit_memory = false;
  out.universe.seed = prng.next();
  out.universe.conversations = prng.between32(2, 6);
  out.universe.pages_each = big ? 4 : prng.between32(6, 24);
  out.universe.world = world;
  out.pages_per_op_max = big ? 2 : prng.between32(2, 10);
  out.region_rows = big ? 6 : 24;
  out.copies_max = prng.one_in(3) ? 3 : kCopyJobsMax;
  for (std::uint32_t version = 0; version < out.versions(); ++version) {
    HC_CHECK(validate_space(out.with_version(version)).has_value());
  }
  return out;
}

}  // namespace hc::sim
